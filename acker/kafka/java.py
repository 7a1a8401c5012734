"""The configuration of librdkafka as the options of Java's client, with which Spark reads."""

from collections.abc import Mapping
from pathlib import Path

from acker.core.errors import SourceError

_SERVERS = "bootstrap.servers"
_LOGINS = "org.apache.kafka.common.security"
_LOGIN_MODULES = {
    "PLAIN": f"{_LOGINS}.plain.PlainLoginModule",
    "SCRAM-SHA-256": f"{_LOGINS}.scram.ScramLoginModule",
    "SCRAM-SHA-512": f"{_LOGINS}.scram.ScramLoginModule",
    "OAUTHBEARER": f"{_LOGINS}.oauthbearer.OAuthBearerLoginModule",
}
_TOKEN_HANDLER = f"{_LOGINS}.oauthbearer.OAuthBearerLoginCallbackHandler"
_ENDPOINT = "sasl.oauthbearer.token.endpoint.url"
_PRIVATE_KEY = "-----BEGIN PRIVATE KEY-----"
_ENCRYPTED_KEY = "-----BEGIN ENCRYPTED PRIVATE KEY-----"
# librdkafka's names that Java's client has too.
_ALIKE = ("security.protocol", "ssl.endpoint.identification.algorithm", "client.id")


def java_options(settings: Mapping[str, str]) -> dict[str, str]:
    """The configuration of librdkafka as the options of Java's client, with which Spark reads.

    Raises:
        SourceError: the configuration has a login or a key that Java's client does not take, or a file
            cannot be read.
    """
    found = {name: settings[name] for name in _ALIKE if name in settings}
    found[_SERVERS] = settings[_SERVERS]
    if found.get("ssl.endpoint.identification.algorithm") == "none":
        found["ssl.endpoint.identification.algorithm"] = ""
    return found | _login(settings) | _trust(settings) | _certificate(settings)


def _login(settings: Mapping[str, str]) -> dict[str, str]:
    mechanism = settings.get("sasl.mechanism", settings.get("sasl.mechanisms"))
    if mechanism is None:
        return {}
    if mechanism not in _LOGIN_MODULES:
        there = ", ".join(_LOGIN_MODULES)
        raise SourceError(f"The login {mechanism} is not supported: choose among {there}.")
    if mechanism == "OAUTHBEARER":
        return {"sasl.mechanism": mechanism, **_token(settings)}
    named = {name: settings.get(f"sasl.{name}", "") for name in ("username", "password")}
    return {"sasl.mechanism": mechanism, "sasl.jaas.config": _jaas(mechanism, named)}


def _token(settings: Mapping[str, str]) -> dict[str, str]:
    """The options of a login with tokens that an endpoint hands out for a client's id and secret.

    Raises:
        SourceError: the login gets its tokens in another way.
    """
    if settings.get("sasl.oauthbearer.method") != "oidc":
        raise SourceError("The login OAUTHBEARER needs sasl.oauthbearer.method=oidc and a token endpoint.")
    named = {"clientId": "client.id", "clientSecret": "client.secret", "scope": "scope"}
    given = {java: settings.get(f"sasl.oauthbearer.{name}", "") for java, name in named.items()}
    return {
        "sasl.jaas.config": _jaas("OAUTHBEARER", {name: value for name, value in given.items() if value}),
        "sasl.login.callback.handler.class": _TOKEN_HANDLER,
        _ENDPOINT: settings.get(_ENDPOINT, ""),
    }


def _jaas(mechanism: str, options: Mapping[str, str]) -> str:
    told = " ".join(f"{name}={_quoted(value)}" for name, value in options.items())
    return f"{_LOGIN_MODULES[mechanism]} required {told};"


def _trust(settings: Mapping[str, str]) -> dict[str, str]:
    """The options that name trusted certificates; none where the usual authorities are trusted."""
    if "ssl.ca.pem" in settings:
        return {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": settings["ssl.ca.pem"]}
    if "ssl.ca.location" in settings:
        return {"ssl.truststore.type": "PEM", "ssl.truststore.location": settings["ssl.ca.location"]}
    return {}


def _certificate(settings: Mapping[str, str]) -> dict[str, str]:
    """The options with the client's own certificate and key; none where one of the two is missing.

    Raises:
        SourceError: the key is not in PKCS#8, or a file cannot be read.
    """
    chain, key = _pem(settings, "ssl.certificate"), _pem(settings, "ssl.key")
    if chain is None or key is None:
        return {}
    if _PRIVATE_KEY not in key and _ENCRYPTED_KEY not in key:
        raise SourceError(
            "The key of ssl.key.location is not in the form that Java's client reads, PKCS#8: turn it into "
            "that with `openssl pkcs8 -topk8`."
        )
    found = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": chain,
        "ssl.keystore.key": key,
    }
    if "ssl.key.password" in settings:
        found["ssl.key.password"] = settings["ssl.key.password"]
    return found


def _pem(settings: Mapping[str, str], name: str) -> str | None:
    """A text in PEM, from the configuration or from a file that it names; None where it has neither."""
    if f"{name}.pem" in settings:
        return settings[f"{name}.pem"]
    place = settings.get(f"{name}.location")
    if place is None:
        return None
    try:
        return Path(place).read_text()
    except OSError as error:
        raise SourceError(f"{name}.location, {place}, cannot be read: {error.strerror}.") from error


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'

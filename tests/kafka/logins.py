"""Logins at a broker without a password of its own: a client's certificate, and tokens of an endpoint."""

import base64
import json
import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

import jwt
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID

from tests.kafka.endpoints import Answer

_SECURE = "listener.name.secure"


def client_certificate(folder: Path) -> dict[str, str]:
    """Make a key and a certificate that it has signed itself: librdkafka's settings with their files."""
    folder.mkdir(parents=True, exist_ok=True)
    key = rsa.generate_private_key(65537, 2048)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "ada")])
    now = datetime.now(UTC)
    made = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    made = made.not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=1))
    certificate, place = folder / "ada.pem", folder / "ada.key"
    certificate.write_bytes(made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
    place.write_bytes(_pem(key))
    return {"ssl.certificate.location": str(certificate), "ssl.key.location": str(place)}


def trusting(certificate: str) -> dict[str, str]:
    """What a broker needs to let in who has a certificate, and nobody else."""
    return {
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SECURE:SSL,CONTROLLER:PLAINTEXT",
        f"{_SECURE}.ssl.client.auth": "required",
        f"{_SECURE}.ssl.truststore.type": "PEM",
        f"{_SECURE}.ssl.truststore.location": certificate,
    }


class Issuer:
    """Who hands out tokens to those who know a client's secret."""

    def __init__(self, folder: Path, secret: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.secret = secret
        self.keys = folder / "keys.json"
        self._key = rsa.generate_private_key(65537, 2048)
        public = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(self._key.public_key()))
        self.keys.write_text(json.dumps({"keys": [public | {"kid": "one", "alg": "RS256", "use": "sig"}]}))

    @property
    def trusted(self) -> dict[str, str]:
        """What a broker needs to take the tokens."""
        handler = "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"
        module = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
        return {
            f"{_SECURE}.sasl.enabled.mechanisms": "OAUTHBEARER",
            f"{_SECURE}.oauthbearer.sasl.jaas.config": f"{module} required;",
            f"{_SECURE}.oauthbearer.sasl.server.callback.handler.class": handler,
            f"{_SECURE}.oauthbearer.sasl.oauthbearer.jwks.endpoint.url": self.keys.as_uri(),
            f"{_SECURE}.oauthbearer.sasl.oauthbearer.expected.audience": "kafka",
        }

    def answer(self, path: str, headers: Mapping[str, str]) -> Answer:
        """What a client is told that asks for a token with the id `ada`."""
        login = base64.b64encode(f"ada:{self.secret}".encode()).decode()
        if headers["Authorization"] != f"Basic {login}":
            return 401, {"error": "invalid_client"}
        return 200, {"access_token": self.token(), "expires_in": 600, "token_type": "Bearer"}

    def token(self) -> str:
        now = int(time.time())
        claims = {"sub": "ada", "aud": "kafka", "iat": now, "exp": now + 600, "scope": "read"}
        return jwt.encode(claims, self._key, "RS256", {"kid": "one"})


def _pem(key: rsa.RSAPrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )

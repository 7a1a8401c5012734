"""Kafka connections by name: from the environment, by others that are asked, and as Java takes them."""

import json

import pytest

from acker.airflow import tasks
from acker.core.errors import SourceError
from acker.kafka import connections
from acker.kafka.connections import connection, look_up_with
from acker.kafka.java import java_options

EXTRA = {
    "bootstrap.servers": "b:9092",
    "sasl.mechanism": "PLAIN",
    "sasl.username": "ada",
    "sasl.password": 'a"b\\',
}


@pytest.fixture(autouse=True)
def own_lookups(monkeypatch):
    monkeypatch.setattr(connections, "_lookups", [])


@pytest.mark.parametrize(
    "value",
    [
        json.dumps({"conn_type": "kafka", "extra": {"bootstrap.servers": "b:9092", "enable.x": True}}),
        json.dumps({"conn_type": "kafka", "extra": '{"bootstrap.servers": "b:9092", "enable.x": true}'}),
        "kafka://?bootstrap.servers=b%3A9092&enable.x=true",
        "kafka://?__extra__=%7B%22bootstrap.servers%22%3A+%22b%3A9092%22%2C+%22enable.x%22%3A+true%7D",
    ],
    ids=["json", "text in json", "uri", "extra in uri"],
)
def test_a_connection_is_read_as_airflow_writes_it(monkeypatch, value):
    monkeypatch.setenv("AIRFLOW_CONN_SHOP", value)
    assert connection("shop") == {"bootstrap.servers": "b:9092", "enable.x": "true"}


def test_others_are_asked_for_what_the_environment_does_not_name(monkeypatch):
    look_up_with({"shop": EXTRA}.get)
    assert connection("shop") == EXTRA
    monkeypatch.setenv("AIRFLOW_CONN_SHOP", '{"extra": {"bootstrap.servers": "c:1"}}')
    assert connection("shop") == {"bootstrap.servers": "c:1"}


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (None, "There is no connection shop. Add it in Airflow, or set AIRFLOW_CONN_SHOP to JSON"),
        ('{"extra": {}}', r"The connection shop has no bootstrap\.servers in its extra"),
        ('{"extra": "s3cret"', "AIRFLOW_CONN_SHOP is neither JSON"),
        ('{"extra": ["s3cret"]}', "AIRFLOW_CONN_SHOP is neither JSON"),
    ],
)
def test_a_connection_that_cannot_serve_is_told_without_its_secret(monkeypatch, value, said):
    if value is not None:
        monkeypatch.setenv("AIRFLOW_CONN_SHOP", value)
    with pytest.raises(SourceError, match=said) as raised:
        connection("shop")
    assert "s3cret" not in str(raised.value)


def test_javas_client_is_given_the_same_login():
    tls = {"security.protocol": "SASL_SSL", "ssl.ca.location": "/ca.pem"}
    assert java_options({**EXTRA, **tls}) == {
        "bootstrap.servers": "b:9092",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule required "
        'username="ada" password="a\\"b\\\\";',
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": "/ca.pem",
    }
    scram = java_options({**EXTRA, "sasl.mechanism": "SCRAM-SHA-512"})["sasl.jaas.config"]
    assert scram.startswith("org.apache.kafka.common.security.scram.ScramLoginModule required")


def test_javas_client_is_given_the_same_endpoint_of_tokens():
    tokens = {
        "bootstrap.servers": "b:9092",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.client.id": "ada",
        "sasl.oauthbearer.client.secret": "s3cret",
        "sasl.oauthbearer.token.endpoint.url": "https://tokens/token",
    }
    bearer = "org.apache.kafka.common.security.oauthbearer"
    assert java_options(tokens) == {
        "bootstrap.servers": "b:9092",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.jaas.config": f'{bearer}.OAuthBearerLoginModule required clientId="ada" clientSecret="s3cret";',
        "sasl.login.callback.handler.class": f"{bearer}.OAuthBearerLoginCallbackHandler",
        "sasl.oauthbearer.token.endpoint.url": "https://tokens/token",
    }


def test_javas_client_is_given_the_same_certificate(tmp_path):
    key = "-----BEGIN PRIVATE KEY-----\nMII=\n-----END PRIVATE KEY-----\n"
    (tmp_path / "ada.key").write_text(key)
    given = {"ssl.certificate.pem": "a chain", "ssl.key.location": str(tmp_path / "ada.key")}
    trusted = {"ssl.ca.pem": "an authority"}
    assert java_options({"bootstrap.servers": "b:9092", **given, **trusted}) == {
        "bootstrap.servers": "b:9092",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": "a chain",
        "ssl.keystore.key": key,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": "an authority",
    }


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"sasl.mechanism": "GSSAPI"}, "The login GSSAPI is not supported: choose among PLAIN, SCRAM"),
        ({"sasl.mechanism": "OAUTHBEARER"}, r"OAUTHBEARER needs sasl\.oauthbearer\.method=oidc"),
        ({"ssl.certificate.pem": "", "ssl.key.pem": "BEGIN RSA PRIVATE KEY"}, "not in the form .*, PKCS#8"),
        ({"ssl.key.location": "/nowhere"}, r"ssl\.key\.location, /nowhere, cannot be read: No such file"),
    ],
)
def test_what_javas_client_cannot_take_is_refused(given, said):
    with pytest.raises(SourceError, match=said):
        java_options({"bootstrap.servers": "b:9092", **given})


@pytest.mark.extended
def test_a_task_asks_airflow_for_its_connections(monkeypatch):
    text = json.dumps({"conn_type": "kafka", "extra": {"bootstrap.servers": "b:9092"}})
    monkeypatch.setenv("AIRFLOW_CONN_SHOP", text)
    assert tasks._kafka_connection("shop") == {"bootstrap.servers": "b:9092"}
    assert tasks._kafka_connection("nobody") is None

"""Which channel a client takes to a Spark server, and what it shows there."""

import pytest
from pyspark.sql.connect.client import DefaultChannelBuilder

from acker.runtime.server.channels import LoopbackChannel, address, channel

SHOWN = ("authorization", "Bearer secret")


@pytest.mark.parametrize("url", ["sc://127.0.0.1:9", "sc://localhost:9/", "sc://localhost:9/;user_id=me"])
def test_a_server_of_this_machine_is_shown_the_token_with_every_call(url):
    found = channel(url, "secret")
    assert (type(found), list(found.metadata())) == (LoopbackChannel, [SHOWN])


def test_a_token_in_the_url_comes_first():
    assert list(channel("sc://localhost:9/;token=secret", "another").metadata()) == [SHOWN]


def test_without_a_token_nothing_is_shown(monkeypatch):
    monkeypatch.setenv("SPARK_CONNECT_AUTHENTICATE_TOKEN", "of the environment")
    found = channel("sc://127.0.0.1:9", None)
    assert (found.token, list(found.metadata())) == (None, [])


@pytest.mark.parametrize(
    "url",
    [
        "sc://spark.internal:443/;use_ssl=true;token=se%2Fcret",
        "sc://localhost:443/;use_ssl=True;token=se%2Fcret",  # a proxy that ends TLS, as Airflow writes it
        "sc://spark.internal:443",
        "sc://spark.internal:443/;use_ssl=true",
    ],
)
def test_another_machine_or_tls_is_left_to_sparks_own_channel_which_shows_a_token_over_tls_alone(url):
    found = channel(url, "se/cret")
    assert (type(found), found.secure, found.token) == (DefaultChannelBuilder, True, "se/cret")


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("sc://localhost", ("127.0.0.1", 15002)),
        ("sc://127.0.0.1:9/;token=a:1", ("127.0.0.1", 9)),
        ("sc://spark.internal:443/;use_ssl=true", ("spark.internal", 443)),
    ],
)
def test_this_machine_has_one_address_by_whatever_name(url, expected):
    assert address(url) == expected

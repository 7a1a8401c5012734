"""Settings that nobody would write: each is taken as it is or refused in a sentence, and tells no secret."""

from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from acker.core.errors import ServerError, SettingsError
from acker.runtime.server import process as server
from acker.runtime.server.ports import is_listening
from acker.runtime.server.sessions import connect
from acker.runtime.settings import Settings

NAMES = (
    "PIPELINE_HOME",
    "PIPELINE_STORE",
    "PIPELINE_TOPOLOGIES",
    "SPARK_REMOTE",
    "PIPELINE_SERVER_ADDRESS",
    "PIPELINE_DRIVER_MEMORY",
    "PIPELINE_APPROVAL_LIMIT",
    "PIPELINE_JARS",
)
PARTS = ["sc://", "s3a://", "file:", "~", "~nobody/", "..", ":", ";", "=", "@", "[::1]", "٣", "K", "4g", "\n"]
VALUES = st.text(max_size=30) | st.lists(st.sampled_from([*PARTS, "h", "99999", "x" * 300])).map("".join)
SECRET = "kept-to-oneself"


@given(name=st.sampled_from(NAMES), value=VALUES)
@example("PIPELINE_HOME", "~nobody-of-this-name/x")
@example("PIPELINE_HOME", "x" * 5_000)
@example("SPARK_REMOTE", "sc://h:99999999")
@settings(derandomize=True, deadline=None, max_examples=500)
def test_a_value_is_taken_or_refused_in_a_sentence(name, value):
    try:
        Settings.from_env({name: value})
    except SettingsError as error:
        assert name in str(error) or "SPARK_CONNECT_AUTHENTICATE_TOKEN" in str(error)


def test_a_folder_that_cannot_be_looked_at_is_refused():
    with pytest.raises(SettingsError, match=r"PIPELINE_HOME is .*: File name too long\. Set it to a folder"):
        Settings.from_env({"PIPELINE_HOME": "x" * 5_000})
    with pytest.raises(SettingsError, match=r"home directory\. Set it to a folder"):
        Settings.from_env({"PIPELINE_HOME": "~nobody-of-this-name/x"})


@pytest.mark.parametrize("port", ["0x1", "65536", "99999999", "٣"])
def test_a_port_that_is_none_is_refused(port):
    with pytest.raises(SettingsError, match="Set it to sc://host:port"):
        Settings.from_env({"SPARK_REMOTE": f"sc://host:{port}"})


def test_a_host_that_can_be_none_does_not_answer():
    assert not is_listening("a..b", 1)
    assert not is_listening("ü" * 100, 1)


@pytest.mark.parametrize(
    "value",
    [
        f"sc://127.0.0.1:9/;token={SECRET}",
        f"sc://127.0.0.1:9;token={SECRET}",
        f"http://host;token={SECRET}",
        f"sc://me:{SECRET}@host:1",
    ],
)
def test_a_token_is_in_no_message_and_no_representation(value):
    try:
        found = Settings.from_env({"SPARK_REMOTE": value, "SPARK_CONNECT_AUTHENTICATE_TOKEN": SECRET})
        told = repr(found)
        connect(found)
    except (SettingsError, ServerError) as error:
        told = str(error)
    assert SECRET not in told


def test_a_server_for_all_networks_needs_a_token():
    with pytest.raises(SettingsError, match="Set SPARK_CONNECT_AUTHENTICATE_TOKEN to a long random text"):
        Settings.from_env({"PIPELINE_SERVER_ADDRESS": "0.0.0.0"})
    both = {"PIPELINE_SERVER_ADDRESS": "0.0.0.0", "SPARK_CONNECT_AUTHENTICATE_TOKEN": SECRET}
    assert Settings.from_env(both).server_address == "0.0.0.0"
    with pytest.raises(SettingsError, match=r"PIPELINE_SERVER_ADDRESS is '10\.0\.0\.1'"):
        Settings.from_env(both | {"PIPELINE_SERVER_ADDRESS": "10.0.0.1"})


def test_a_token_is_in_the_servers_environment_and_not_among_its_arguments(tmp_path, monkeypatch):
    monkeypatch.setenv("SPARK_CONNECT_AUTHENTICATE_TOKEN", "of the developer")
    (tmp_path / "server").mkdir()
    (tmp_path / "delta-spark.jar").touch()
    names = {"PIPELINE_HOME": str(tmp_path), "PIPELINE_JARS": str(tmp_path)}
    found = Settings.from_env(names | {"SPARK_CONNECT_AUTHENTICATE_TOKEN": SECRET})
    assert SECRET not in " ".join(server._command(found, 1, []))
    assert server._environment(found, SECRET)["SPARK_CONNECT_AUTHENTICATE_TOKEN"] == SECRET


def test_no_committed_file_holds_a_secret():
    root = Path(__file__).parents[2]
    compose = (root / "docker-compose.yml").read_text()
    assert all(
        f"${{{name}:?see the top}}" in compose for name in ("POSTGRES_PASSWORD", "JWT_SECRET", "API_SECRET")
    )
    assert ".env" in (root / ".gitignore").read_text().split()
    assert ".env" in (root / ".dockerignore").read_text().split()

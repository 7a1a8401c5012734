"""Who may use the Spark server: its token, who is shown it, and what its other listeners want."""

import os
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from deltalake import DeltaTable
from deltalake.schema import Field, PrimitiveType, Schema
from pyspark.errors import PySparkException
from pyspark.sql.connect.session import SparkSession as ConnectSession

from acker.core.errors import ServerError
from acker.runtime.server import process as server
from acker.runtime.server.process import Server
from acker.runtime.server.sessions import connect, session
from acker.runtime.server.tokens import read_token, token_file
from acker.runtime.settings import Settings
from acker.testing.session import SHORT_LIVED
from tests.kit import ROOT
from tests.kit.listeners import listeners

TOKEN = "SPARK_CONNECT_AUTHENTICATE_TOKEN"
RPC_REQUEST, RPC_FAILURE = 3, 5  # message types of Spark's own network protocol
REFUSED = (
    "java.lang.IllegalStateException: Expected SaslMessage, received something else "
    "(maybe your client does not have SASL enabled?)"
)

TOPOLOGY = """
from acker import DeltaSpout, Topology

topology = Topology("plain")
numbers = topology.spout("numbers", DeltaSpout("numbers", key="id"))
same = topology.bolt(numbers, name="same")(lambda tuples: tuples)
topology.publish(same, to="same")
"""
TASK = """
from acker.airflow import dags
from airflow.sdk.exceptions import AirflowSkipException

try:
    dags("run")["plain_run"].get_task("numbers").python_callable()
except AirflowSkipException as skipped:
    print(skipped)
"""


@pytest.fixture
def running(spark, settings: Settings) -> Server:
    """The shared server, which was started with the default settings."""
    found = server.find(settings)
    assert found is not None
    return found


@pytest.fixture
def other_listener(running: Server) -> Iterator[socket.socket]:
    """Somebody else's socket on ::1, at the server's port."""
    with socket.socket(socket.AF_INET6) as listener:
        try:
            listener.bind(("::1", running.port))
        except OSError as error:
            pytest.skip(f"needs IPv6: {error.strerror}")
        listener.listen()
        listener.setblocking(False)
        yield listener


def assert_nobody_came(listener: socket.socket) -> None:
    with pytest.raises(BlockingIOError):
        listener.accept()


def test_a_server_has_a_token_by_default_that_its_owner_alone_may_read(running, settings):
    assert token_file(settings).stat().st_mode & 0o777 == 0o600
    assert len(token_file(settings).read_text()) == 43  # 32 random bytes


def test_the_token_is_in_no_list_of_processes_no_log_and_no_other_file(running, settings):
    token = read_token(settings)
    told = subprocess.run(["ps", "-A", "-ww", "-o", "args="], capture_output=True, text=True).stdout
    assert f"spark.connect.grpc.binding.port={running.port}" in told and token not in told
    files = [file for file in (settings.home / "server").iterdir() if file.is_file()]
    assert [file for file in files if token in file.read_text(errors="replace")] == [token_file(settings)]


def test_a_client_without_the_token_is_refused(running, tmp_path):
    elsewhere = {"PIPELINE_HOME": str(tmp_path), "SPARK_REMOTE": running.url}
    for token in ({}, {TOKEN: "guessed"}):
        with pytest.raises(ServerError, match=f"wants a token: set {TOKEN} to the one with which"):
            connect(Settings.from_env(elsewhere | token))


def test_a_client_of_sparks_own_without_the_token_is_refused(running):
    stranger = ConnectSession.builder.remote(running.url).create()
    with pytest.raises(PySparkException, match="UNAUTHENTICATED"):
        stranger.range(3).count()
    stranger.client.close()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_listener_on_the_other_loopback_address_sees_no_client(running, settings, other_listener, host):
    for where in (settings, replace(settings, remote=f"sc://{host}:{running.port}")):
        with session(where) as spark:
            assert spark.range(3).count() == 3
    assert_nobody_came(other_listener)


@pytest.mark.thorough
def test_a_listener_on_the_other_loopback_address_sees_no_task_of_airflows(
    running, settings, other_listener, tmp_path
):
    (tmp_path / "plain.py").write_text(TOPOLOGY)
    DeltaTable.create(str(tmp_path / "numbers"), Schema([Field("id", PrimitiveType("long"))]))
    environ = os.environ | {
        "AIRFLOW_CONN_SPARK_CONNECT": f"spark-connect://localhost:{running.port}",
        "AIRFLOW_HOME": str(tmp_path / "airflow"),
        "PIPELINE_HOME": str(settings.home),
        "PIPELINE_STORE": str(tmp_path / "store"),
        "PIPELINE_TOPOLOGIES": "plain:topology",
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(tmp_path)]),
    }
    done = subprocess.run(
        [sys.executable, "-c", TASK], cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=300
    )
    assert done.stdout.endswith("There was nothing to do.\n"), done.stderr
    assert_nobody_came(other_listener)


def test_a_proxy_of_the_environment_sees_no_client(running, settings, monkeypatch):
    with socket.socket() as proxy:
        proxy.bind(("127.0.0.1", 0))
        proxy.listen()
        proxy.setblocking(False)
        monkeypatch.setenv("grpc_proxy", f"http://127.0.0.1:{proxy.getsockname()[1]}")
        with session(settings) as spark:
            assert spark.range(3).count() == 3
        assert_nobody_came(proxy)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_the_drivers_other_listeners_refuse_who_has_no_secret(running):
    at = listeners([running.pid])
    assert {address for address, _ in at} == {"127.0.0.1"}
    others = {port for _, port in at} - {running.port}
    assert [answer(port) for port in sorted(others)] == [REFUSED, REFUSED]


def answer(port: int) -> str:
    """What Spark's network protocol answers to a request without the handshake that proves the secret."""
    body = b"anything"
    head = struct.pack(">BqI", RPC_REQUEST, 1, len(body))
    with socket.create_connection(("127.0.0.1", port), timeout=60) as peer, peer.makefile("rb") as stream:
        peer.sendall(struct.pack(">q", 8 + len(head) + len(body)) + head + body)
        (size,) = struct.unpack(">q", stream.read(8))
        kind, _, length = struct.unpack(">BqI", stream.read(13))
        told = stream.read(size - 8 - 13)
    assert (kind, length) == (RPC_FAILURE, len(told))
    return told.decode().splitlines()[0]


@pytest.mark.thorough
def test_a_token_of_ones_own_takes_the_place_of_the_generated_one(tmp_path: Path):
    names = {"PIPELINE_HOME": str(tmp_path), "PIPELINE_DRIVER_MEMORY": "1g"}
    given = Settings.from_env(names | {TOKEN: "kept to oneself"})
    with pytest.MonkeyPatch.context() as patch:
        for name, value in SHORT_LIVED.items():
            patch.setenv(name, value)
        server.start(given)
    try:
        assert not token_file(given).exists()
        with session(given) as spark:
            assert spark.range(3).count() == 3
        with pytest.raises(ServerError, match=f"wants a token: set {TOKEN} to the one with which"):
            connect(Settings.from_env(names))
    finally:
        server.stop(given)


@pytest.mark.extended
def test_a_token_of_ones_own_is_not_taken_for_that_of_a_server_that_runs(running, settings):
    with pytest.raises(ServerError, match=f"was started without {TOKEN}, so it has another token: unset"):
        connect(replace(settings, token="of somebody"))

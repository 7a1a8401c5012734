"""The server as a process: when it is there, who shares it, and that nothing is left of it."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException

from acker.core.errors import ServerError
from acker.runtime.server import channels
from acker.runtime.server import process as server
from acker.runtime.server.jars import default_folder
from acker.runtime.server.ports import free_port, is_listening
from acker.runtime.server.sessions import connect
from acker.runtime.settings import Settings
from acker.testing.session import SHORT_LIVED
from tests.kit import ROOT

START = "from acker.runtime.server import process as server; from acker.runtime.settings import Settings; "
PRINT_STARTED = START + "print(server.start(Settings.from_env()).pid)"
PRINT_FOUND = START + "print(server.find(Settings.from_env()).pid)"
# Short naps, because a signal that one of gRPC's threads receives does not cut the main thread's sleep
# short: Python handles it once the nap is over.
OWN_AND_WAIT = (
    "from acker.runtime.server.sessions import owned_session\n"
    "from acker.runtime.settings import Settings; import time\n"
    "with owned_session(Settings.from_env()):\n"
    "    print('up', flush=True)\n"
    "    while True: time.sleep(0.1)\n"
)

OWN_AND_ASK = """
from acker.runtime.server.sessions import owned_session
from acker.runtime.settings import Settings

with owned_session(Settings.from_env()) as spark:
    spark.range(3).repartition(2).write.format("delta").save("{table}")
    print(spark.read.format("delta").load("{table}").count())
"""

IDLE = """
from acker import FileSpout, Topology

topology = Topology("idle")
lines = topology.spout("lines", FileSpout("empty", format="text"))
same = topology.bolt(lines, name="same")(lambda tuples: tuples)
topology.publish(same, to="same")
"""

UDF_OVER_DELTA = """
import sys
from pyspark.sql import functions as F
from acker.runtime.server.sessions import connect
from acker.runtime.settings import Settings

spark = connect(Settings.from_env())
spark.range(300_000).write.format("delta").save(sys.argv[1])
next_number = F.udf(lambda number: number + 1, "long")
table = spark.read.format("delta").load(sys.argv[1])
print(table.select(next_number("id").alias("n")).agg(F.sum("n")).first()[0])
"""


def python(environ: dict[str, str], *arguments: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", *arguments]
    return subprocess.Popen(command, cwd=ROOT, env=environ, stdout=subprocess.PIPE, text=True)


def acker(environ: dict[str, str], *arguments: str, cwd: Path = ROOT) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "acker", *arguments]
    return subprocess.run(command, cwd=cwd, env=environ, capture_output=True, text=True, timeout=300)


def is_gone(pid: int, within_seconds: float) -> bool:
    deadline = time.monotonic() + within_seconds
    while time.monotonic() < deadline:
        if server._start_time(pid) is None:
            return True
        time.sleep(0.1)
    return False


@pytest.fixture
def own_home(tmp_path):
    """The environment of child processes that share a home without a server."""
    names = {"PIPELINE_HOME": str(tmp_path / "home"), "PIPELINE_DRIVER_MEMORY": "1g", "SPARK_REMOTE": ""}
    yield os.environ | SHORT_LIVED | names
    server.stop(Settings.from_env(names))


@pytest.mark.extended
def test_two_starts_at_once_give_one_server_that_is_found_again_until_it_is_stopped(own_home):
    settings = Settings.from_env(own_home)
    assert server.find(settings) is None
    first, second = python(own_home, PRINT_STARTED), python(own_home, PRINT_STARTED)
    pids = {first.communicate()[0].strip(), second.communicate()[0].strip()}
    third = python(own_home, PRINT_FOUND).communicate()[0].strip()
    running = server.find(settings)
    assert running is not None
    assert pids == {third} == {str(running.pid)}
    assert server.stop(settings)
    assert is_gone(running.pid, within_seconds=0.5)
    assert not is_listening("127.0.0.1", running.port)
    assert server.find(settings) is None
    assert not server.stop(settings)


def pause(running: server.Server) -> None:
    """Stop a server's process, so that it takes no connection any more once its queue of them is full."""
    os.killpg(running.pid, signal.SIGSTOP)
    while is_listening("127.0.0.1", running.port):
        pass


def test_a_server_that_is_paused_for_a_while_is_waited_for_and_keeps_its_sessions(own_home):
    settings = Settings.from_env(own_home)
    running = server.start(settings)
    session = connect(settings)
    session.range(3).createTempView("three")
    pause(running)
    try:
        command = [sys.executable, "-c", PRINT_STARTED]
        asking = subprocess.Popen(
            command, cwd=ROOT, env=own_home, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert asking.stderr is not None
        told = asking.stderr.readline()
    finally:
        os.killpg(running.pid, signal.SIGCONT)
    assert asking.communicate()[0] == f"{running.pid}\n"
    who = f"The Spark server of {settings.home} (process {running.pid})"
    assert told == f"{who} does not answer. Waiting up to 60 s …\n"
    assert session.table("three").count() == 3
    session.stop()


@pytest.mark.extended
def test_a_task_whose_server_takes_connections_and_does_not_answer_hears_of_it(own_home, monkeypatch):
    soon = {"grpc.keepalive_time_ms": 2_000, "grpc.keepalive_timeout_ms": 2_000}
    monkeypatch.setattr(channels, "_ALIVE", [(name, soon.get(name, 0)) for name, _ in channels._ALIVE])
    settings = Settings.from_env(own_home)
    running = server.start(settings)
    session = connect(settings)
    os.killpg(running.pid, signal.SIGSTOP)
    try:
        with pytest.raises(PySparkException, match="UNAVAILABLE"):
            session.range(3).count()
        with pytest.raises(ServerError, match="takes connections and does not answer"):
            connect(settings, running.url)
    finally:
        os.killpg(running.pid, signal.SIGCONT)
    assert session.range(3).count() == 3
    session.stop()


@pytest.mark.extended
def test_a_server_that_never_answers_again_is_ended_and_another_started(own_home, monkeypatch, capsys):
    settings = Settings.from_env(own_home)
    silent = server.start(settings)
    pause(silent)
    monkeypatch.setattr(server, "_SILENT_SECONDS", 0)
    running = server.start(settings)
    assert is_gone(silent.pid, within_seconds=0.5)
    assert server.find(settings) == running
    assert f"(process {silent.pid}) has not answered for 0 s" in capsys.readouterr().err


@pytest.mark.skipif(sys.platform != "linux", reason="Linux alone can end a process with its parent")
def test_a_killed_owner_leaves_no_server(own_home):
    owner = python(own_home, OWN_AND_WAIT)
    assert owner.stdout is not None
    assert owner.stdout.readline() == "up\n"
    running = server.find(Settings.from_env(own_home))
    assert running is not None
    owner.kill()
    owner.communicate()
    assert is_gone(running.pid, within_seconds=10)
    assert not is_listening("127.0.0.1", running.port)


@pytest.mark.thorough
def test_an_owner_that_is_told_to_end_stops_its_server_first(own_home):
    owner = python(own_home, OWN_AND_WAIT)
    assert owner.stdout is not None
    assert owner.stdout.readline() == "up\n"
    running = server.find(Settings.from_env(own_home))
    assert running is not None
    owner.send_signal(signal.SIGTERM)
    owner.communicate()
    assert is_gone(running.pid, within_seconds=0.5)


@pytest.mark.thorough
def test_paths_may_hold_spaces_and_commas(own_home, tmp_path):
    place = tmp_path / "a place, with commas"
    place.mkdir()
    (place / "jars").symlink_to(default_folder())
    ours = {"PIPELINE_HOME": str(place / "home"), "PIPELINE_JARS": str(place / "jars")}
    code = OWN_AND_ASK.format(table=place / "table")
    told = python(own_home | ours, code).communicate()[0]
    assert told == "3\n"


@pytest.mark.thorough
def test_a_plain_python_udf_over_a_delta_scan_answers(environment, store_uri):
    command = [sys.executable, "-c", UDF_OVER_DELTA, f"{store_uri}/numbers"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120)
    assert (done.stdout, done.returncode) == ("45000150000\n", 0), done.stderr


@pytest.mark.extended
def test_sessions_share_one_python_daemon_and_each_task_imports_anew(own_home, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    settings = Settings.from_env(own_home)
    running = server.start(settings)

    def priced(batches):
        from shop.europe import prices  # of packages without files of their own

        for _ in batches:
            yield pa.RecordBatch.from_pydict({"price": [prices.TODAY]})

    (tmp_path / "shop" / "europe").mkdir(parents=True)
    found = []
    for price in (1, 20, 300):
        (tmp_path / "shop" / "europe" / "prices.py").write_text(f"TODAY = {price}\n")
        session = connect(settings)
        found += session.range(0, 1, 1, 1).mapInArrow(priced, "price bigint").collect()
        session.stop()
    assert [row.price for row in found] == [1, 20, 300]
    told = subprocess.run(["ps", "-A", "-ww", "-o", "ppid=,args="], capture_output=True, text=True).stdout
    daemons = [line for line in told.splitlines() if "-m acker.runtime.server.python_daemon" in line]
    assert [line.split()[0] for line in daemons].count(str(running.pid)) == 1


@pytest.fixture
def taken() -> Iterator[int]:
    """A port on which this process listens."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", free_port()))
        listener.listen()
        yield listener.getsockname()[1]


@pytest.mark.parametrize("action", ["start", pytest.param("run", marks=pytest.mark.extended)])
def test_a_server_on_a_taken_port_is_one_error_and_none_runs(own_home, taken, action):
    done = acker(own_home, "server", action, "--port", str(taken))
    who = rf"is held by process {os.getpid()} \(.*\)" if shutil.which("lsof") else "cannot be used: .*"
    remedy = r"Free it, or choose another with --port; without it a free one is found\."
    assert (done.returncode, done.stdout) == (2, "")
    assert re.fullmatch(rf"Error: Port {taken} {who}\. {remedy}\n", done.stderr)
    assert acker(own_home, "server", "status").stdout == "No server runs.\n"
    assert not server.stop(Settings.from_env(own_home))


@pytest.mark.thorough
def test_a_port_that_is_taken_while_the_server_starts_is_no_server(own_home, taken):
    settings = Settings.from_env(own_home)
    with server._locked(settings), pytest.raises(ServerError, match=f"Port {taken} "):
        # As `start` does once it has found the port free.
        server._launch(settings, taken, owned=False, options=[])
    assert server.find(settings) is None
    assert not server.stop(settings)


@pytest.mark.thorough
def test_a_command_says_that_it_leaves_a_server_running_and_only_the_first_one_does(own_home, tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "idle.py").write_text(IDLE)
    told = [acker(own_home, "run", "idle:topology", cwd=tmp_path) for _ in range(2)]
    said = "A Spark server keeps running for the next command; `acker server stop` ends it.\n"
    assert [done.returncode for done in told] == [0, 0]
    assert [said in done.stderr for done in told] == [True, False]


def test_a_start_that_fails_names_the_log_and_its_reason(tmp_path):
    home = tmp_path / "home"
    settings = Settings.from_env({"PIPELINE_HOME": str(home), "PIPELINE_DRIVER_MEMORY": "99999g"})
    with pytest.raises(ServerError, match=r"did not start: Could not reserve .* The log is ") as raised:
        server.start(settings)
    assert str(home / "server" / "server.log") in str(raised.value)
    assert server.find(settings) is None


def test_a_remote_that_does_not_answer_is_named_at_once():
    with pytest.raises(ServerError, match=r"No Spark Connect server answers at sc://127\.0\.0\.1:9\."):
        connect(Settings.from_env({"SPARK_REMOTE": "sc://127.0.0.1:9"}))


def test_missing_jars_are_answered_with_what_to_do(tmp_path):
    settings = Settings.from_env({"PIPELINE_HOME": str(tmp_path), "PIPELINE_JARS": str(tmp_path / "none")})
    with pytest.raises(ServerError, match=r"jars are not in .*none\. Unset PIPELINE_JARS"):
        server.start(settings)


def test_without_java_the_server_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ServerError, match=r"^Install Java 17 or 21 [^.]*\.$"):
        server.start(Settings.from_env({"PIPELINE_HOME": str(tmp_path)}))


def test_without_java_the_setup_says_what_to_install(tmp_path):
    done = subprocess.run(
        ["/bin/bash", Path("scripts/setup.sh")],
        cwd=ROOT,
        env={"PATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    sentence = "Install Java 17 or 21 and put it on the PATH or name its folder in JAVA_HOME.\n"
    assert (done.returncode, done.stdout, done.stderr) == (1, "", sentence)

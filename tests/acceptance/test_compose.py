"""docker-compose.yml without an engine: as Compose itself reads it, and as plain processes.

A server that keeps all in its memory stands in for the image of S3, and the tests' broker, with the settings
of the file, for that of Kafka.
"""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import yaml
from deltalake import write_deltalake

from acker.runtime.server.ports import free_port
from embedded import process_guard as guard
from tests.kit import ROOT
from tests.kit.broker import Broker
from tests.kit.compose import (
    CLUSTER,
    FILE,
    ONCE,
    SECRETS,
    UNCHECKED,
    Compose,
    call,
    model,
    needs,
    published,
    read_only,
    running_database,
    wait_until,
)
from tests.kit.object_store import BUCKET, running_object_store

PARTS = {"api-server", "scheduler", "dag-processor", "triggerer", "cleaner"}
RUN_TOPOLOGIES = {"scheduler", "dag-processor", "triggerer"}
ONE_MACHINE = {"network", "postgres", "migrate", "spark", *PARTS}
OF_A_CLUSTER = {"spark-master", "spark-worker", "kafka", "bucket", "s3"}

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
        assert service["read_only"] is True, name
        assert not {"configs", "secrets"} & set(service), name  # which Compose would put under the root
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert service["user"].partition(":")[0] not in ("", "0", "root"), name
        assert not {"privileged", "cap_add", "devices", "pid", "ipc", "container_name"} & set(service), name
        assert service["pids_limit"] > 0, name
        assert int(service["mem_limit"]) > 0, name


def test_a_process_of_a_service_writes_nowhere_but_into_volumes(tmp_path: Path) -> None:
    """Which holds what runs below to it."""
    command = read_only(tmp_path, ["touch"])
    if command == ["touch"]:
        pytest.skip("needs the right to mount")
    assert subprocess.run([*command, tmp_path / "file"]).returncode == 0
    for folder in (ROOT, Path(sys.prefix), Path.home()):
        done = subprocess.run([*command, folder / "file"], capture_output=True, text=True)
        assert done.stderr.endswith("Read-only file system\n"), folder


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
    assert mounted <= {*owned, "/tmp"}


def test_a_service_has_the_secrets_that_it_needs() -> None:
    read = model(SECRETS | CLUSTER, "cluster")

    def who_has(secret: str) -> set[str]:
        return {name for name, service in read["services"].items() if secret in json.dumps(service)}

    airflow = {"migrate", *PARTS}
    assert who_has(SECRETS["POSTGRES_PASSWORD"]) == {"postgres", *airflow}
    assert who_has(SECRETS["JWT_SECRET"]) == {"api-server", "scheduler"}
    assert who_has(SECRETS["API_SECRET"]) == {"api-server"}
    assert who_has(SECRETS["SPARK_SECRET"]) == {"spark", "spark-master", "spark-worker"}
    assert who_has(CLUSTER["AWS_SECRET_ACCESS_KEY"]) == {"s3", "spark", *RUN_TOPOLOGIES}
    assert not any("AIRFLOW" in name for name in read["services"]["spark"]["environment"])
    assert list(read["services"]["spark-worker"]["environment"]) == ["SPARK_CONF_DIR", "SPARK_DEFAULTS"]


def test_a_service_writes_where_it_has_to_and_nowhere_else() -> None:
    services = model(SECRETS | CLUSTER, "cluster")["services"]
    written = {
        name: {
            volume.get("source", "")
            for volume in service.get("volumes", [])
            if not volume.get("read_only") and volume["target"] not in ("/tmp", "/opt/kafka/config")
        }
        for name, service in services.items()
    }
    assert {name: volumes for name, volumes in written.items() if volumes} == {
        "postgres": {"database"},
        "spark": {"data"},
        "scheduler": {"airflow", "data"},
        "dag-processor": {"airflow", "data"},
        **{name: {"airflow"} for name in ("api-server", "triggerer", "cleaner", "migrate")},
        "kafka": {"kafka"},
        **{name: {"lake"} for name in ("bucket", "s3")},
    }
    read = {
        (name, volume["target"])
        for name, service in services.items()
        for volume in service.get("volumes", [])
        if volume.get("read_only")
    }
    code = {"/opt/acker/dags", "/opt/acker/pipeline"}
    assert read == {
        ("spark", "/opt/acker/pipeline"),
        ("triggerer", "/data"),
        *((name, folder) for name in RUN_TOPOLOGIES for folder in code),
    }


def test_what_a_container_prints_is_kept_within_a_size(services: dict[str, Any]) -> None:
    for name, service in services.items():
        rotated = {"driver": "json-file", "options": {"max-size": "10m", "max-file": "4"}}
        assert service["logging"] == rotated, name


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
    return any(each.get("source") == volume for each in service.get("volumes", []))


@pytest.fixture
def database() -> Iterator[str]:
    with running_database() as found:
        yield found.url


@pytest.mark.extended
def test_the_services_run_a_topology(database: str, tmp_path: Path) -> None:
    compose = Compose(tmp_path, SECRETS | {"TOPOLOGIES": "plain:topology"}, database)
    (tmp_path / "plain.py").write_text(NUMBERS.format(lake=tmp_path))
    write_deltalake(str(tmp_path / "numbers"), pa.table({"id": [1, 2, 3]}))
    try:
        compose.up(stand_ins={"postgres"})
        compose.run_dags("plain")
        wait_until(lambda: published(tmp_path / "same", "id") == [1, 2, 3])
    finally:
        compose.down()


@pytest.mark.extended
@pytest.mark.thorough
def test_the_cluster_runs_a_topology_on_s3_and_kafka(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (built,) = re.findall(r"^ && (.*.*acker setup)$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    subprocess.run(["sh", "-c", built], cwd=ROOT, check=True)
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
            compose.run_dags("plain")
            wait_until(lambda: published(f"{lake}/same", "id") == [1, 2, 3])
            wait_until(lambda: published(f"{lake}/texts", "text") == ["one", "two"])
        finally:
            compose.down()
            broker.kill()
    assert all(any((tmp_path / work).rglob("stderr")) for work in ("work", "work-2"))  # executors of both


def broker_of(compose: Compose) -> Broker:
    """A broker with the settings that the image makes of the file's environment."""
    broker = Broker(compose.folder / "kafka")
    compose.places |= {"9092": str(broker.port), "9093": str(broker.controller_port)}
    environ = compose.environ("kafka")
    names = [name for name in environ if name.startswith("KAFKA_") and name != "KAFKA_HEAP_OPTS"]
    broker.more = {name.removeprefix("KAFKA_").lower().replace("_", "."): environ[name] for name in names}
    return broker

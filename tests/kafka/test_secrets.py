"""TLS and a login from a connection, whose password stands in no table, log, plan, manifest or error."""

import json
import logging
from pathlib import Path

import pytest
from confluent_kafka.admin import ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

from acker import Topology
from acker.core.delta import query
from acker.core.errors import SourceError
from acker.operations.cycle import run_cycle
from acker.reports.status import status_report
from acker.runtime.manifest import manifest_of
from acker.spouts import History
from acker.spouts.kafka import KafkaSpout
from tests.kit.broker import running_broker

SECRET = "s3cret-0f6a7c"
TABLES = ("batches", "events", "ledger", "streams/records")


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    with running_broker(tmp_path_factory.mktemp("secure"), SECRET) as found:
        yield found


def named(monkeypatch, broker, **more):
    extra = {
        "bootstrap.servers": broker.secure_servers,
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(broker.authority),
        "sasl.mechanism": "PLAIN",
        "sasl.username": "ada",
        "sasl.password": SECRET,
    }
    monkeypatch.setenv("AIRFLOW_CONN_SHOP", json.dumps({"conn_type": "kafka", "extra": extra | more}))


def files_with(folder: Path, text: str) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and text.encode() in path.read_bytes()]


@pytest.mark.extended
def test_a_login_over_tls_reads_and_its_password_is_nowhere(place, broker, monkeypatch, caplog, settings):
    broker.create("secured").add("tea", "milk")
    named(monkeypatch, broker)
    topology = Topology("secured")
    records = topology.spout("records", KafkaSpout(connection="shop", topics="secured", group="watched"))
    topology.bolt(records, name="same")(lambda tuples: tuples)
    topology.publish("same", to=place.path("same"))
    run = place.run(topology)
    with caplog.at_level(logging.DEBUG):
        run_cycle(run)
    assert place.rows("same") == [("milk",), ("tea",)]
    told = [
        caplog.text,
        repr(topology.spouts[0]),
        str(manifest_of(topology)),
        str(status_report(topology, run.store, run.clock())),
    ]
    told += [str(query("SELECT * FROM t", t=run.store.require(name))) for name in TABLES]
    assert [text for text in told if SECRET in text] == []
    assert files_with(place.folder, SECRET) + files_with(settings.home, SECRET) == []


@pytest.mark.extended
def test_scram_reads_as_well_and_a_wrong_password_is_an_error_without_it(broker, monkeypatch, spark):
    broker.create("scrammed").add("tea")
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
    admin = broker.admin
    change = UserScramCredentialUpsertion("ada", info, SECRET.encode())
    admin.alter_user_scram_credentials([change])["ada"].result()
    named(monkeypatch, broker, **{"sasl.mechanism": "SCRAM-SHA-256"})
    spout = KafkaSpout(connection="shop", topics="scrammed")
    planned = spout.next_range(None, History(None, list), 10)
    assert [row["value"] for row in spout.read_range(spark, planned).collect()] == ["tea"]
    named(monkeypatch, broker, **{"sasl.password": "wr0ng-secret"})
    with pytest.raises(SourceError, match=f"Kafka at {broker.secure_servers}") as raised:
        spout.next_range(None, History(None, list), 10)
    assert "wr0ng" not in str(raised.value)

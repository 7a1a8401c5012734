"""TLS and logins from a connection, whose secrets stand in no table, log, plan, manifest or error."""

import json
import logging
from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from acker import KafkaTarget, Topology
from acker.core.errors import SourceError
from acker.core.events import State
from acker.core.store.tables import query
from acker.kafka import groups
from acker.kafka.cluster import Cluster, Partition
from acker.operations.cycle import run_cycle
from acker.operations.replay import replay_by_hand
from acker.operations.selection.selection import Selection
from acker.reports.status import status_report
from acker.runtime.manifest import manifest_of
from acker.spouts import History
from acker.spouts.kafka.spout import KafkaSpout
from tests.kafka.endpoints import answering
from tests.kafka.logins import Issuer, client_certificate, trusting
from tests.kit.broker import running_broker
from tests.kit.received import received

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
    told = {name: value for name, value in (extra | more).items() if value is not None}
    monkeypatch.setenv("AIRFLOW_CONN_SHOP", json.dumps({"conn_type": "kafka", "extra": told}))


def files_with(folder: Path, text: str) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and text.encode() in path.read_bytes()]


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
    acked = Selection(states=(State.ACKED,))
    assert replay_by_hand(run, acked, "a look", "ada").replayed == 2
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


@pytest.mark.thorough
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


def read_twice(spark, spout):
    """The values that a spout reads, and that it reads back."""
    planned = spout.next_range(None, History(None, list), 10)
    found = spout.read_range(spark, planned)
    at = found.select("_source_partition", "_source_offset").toArrow()
    at = at.rename_columns(["source_partition", "source_offset"])
    again = spout.read_positions(spark, at, History(planned, lambda: [planned]))
    return [[row["value"] for row in each.collect()] for each in (found, again)]


@pytest.mark.thorough
def test_a_certificate_of_the_client_reads_and_its_key_is_nowhere(tmp_path, monkeypatch, spark, settings):
    files = client_certificate(tmp_path / "ada")
    trusted = trusting(files["ssl.certificate.location"])
    with running_broker(tmp_path / "broker", SECRET, trusted) as broker:
        broker.create("mutual").add("tea")
        named(monkeypatch, broker, **{"security.protocol": "SSL", "sasl.mechanism": None}, **files)
        assert read_twice(spark, KafkaSpout(connection="shop", topics="mutual")) == [["tea"], ["tea"]]
    key = Path(files["ssl.key.location"]).read_text().splitlines()[1]
    assert files_with(settings.home, key) == []


@pytest.mark.thorough
def test_tokens_of_an_endpoint_read_and_their_secret_is_nowhere(tmp_path, monkeypatch, spark, settings):
    issuer = Issuer(tmp_path / "issuer", SECRET)
    allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={issuer.keys.as_uri()}"
    monkeypatch.setenv("JDK_JAVA_OPTIONS", allowed)
    with (
        running_broker(tmp_path / "broker", SECRET, issuer.trusted) as broker,
        answering(issuer.answer) as url,
    ):
        broker.create("tokens").add("tea")
        login = {
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.client.id": "ada",
            "sasl.oauthbearer.client.secret": SECRET,
            "sasl.oauthbearer.token.endpoint.url": f"{url}/token",
        }
        named(monkeypatch, broker, **login)
        assert read_twice(spark, KafkaSpout(connection="shop", topics="tokens")) == [["tea"], ["tea"]]
    assert files_with(settings.home, SECRET) == []


# Who comes without a login may do everything, and `ada` what she is allowed to do.
AUTHORIZED = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}


DESCRIBE_CONFIGS = AclOperation.DESCRIBE_CONFIGS
USES = (AclOperation.DESCRIBE, AclOperation.READ, AclOperation.WRITE)


def allow(broker, kind, name, *operations):
    """Let `ada` do something with all whose names begin so."""
    pattern = ResourcePatternType.PREFIXED if name else ResourcePatternType.LITERAL
    rules = [
        AclBinding(kind, name or "*", pattern, "User:ada", "*", operation, AclPermissionType.ALLOW)
        for operation in operations
    ]
    admin = broker.admin  # its answers go with it
    for done in admin.create_acls(rules).values():
        done.result()


@pytest.mark.thorough
def test_what_a_login_may_not_do_is_said_with_what_to_grant_and_then_goes_on(
    place, tmp_path, monkeypatch, caplog
):
    with running_broker(tmp_path / "broker", SECRET, AUTHORIZED) as broker:
        broker.create("orders").add("tea", "milk")
        broker.create("drinks")
        named(monkeypatch, broker)
        topology = Topology("allowed")
        orders = topology.spout("orders", KafkaSpout(connection="shop", topics="orders", group="watched"))
        topology.publish(orders, KafkaTarget(connection="shop", topic="drinks", value="value"))
        run = place.run(topology)
        topic, all_of = ResourceType.TOPIC, (AclOperation.CREATE, *USES)
        steps = [
            ("acker-published-.*: grant Create, Describe, Read and Write", topic, "acker-published", all_of),
            ("asked for topic orders: .*: grant Describe and Read on it", topic, "orders", USES),
            ("settings of topic drinks: .*: grant DescribeConfigs on", topic, "drinks", [DESCRIBE_CONFIGS]),
            ("a transaction of .*-orders: .*: grant Write on that", ResourceType.TRANSACTIONAL_ID, "", USES),
            ("topic drinks: .*: grant Describe and Write on it", topic, "drinks", USES),
        ]
        for said, kind, name, operations in steps:
            with pytest.raises(SourceError, match=said):
                run_cycle(run)
            allow(broker, kind, name, *operations)
        run_cycle(run)
        assert [value for _, value, _ in received(broker.servers, "drinks")] == ["tea", "milk"]
        assert "asked for the offsets of group watched: This login may not: grant Read" in caplog.text
        allow(broker, ResourceType.GROUP, "watched", AclOperation.DESCRIBE, AclOperation.READ)
        run_cycle(run)
        assert groups.committed(Cluster(broker.servers), "watched") == {Partition("orders", 0): 2}

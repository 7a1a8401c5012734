"""A Kafka broker of the tests' own, on loopback."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from acker.kafka.cluster import Cluster, Partition
from acker.runtime.jars import fetched
from acker.runtime.java import java_command
from tests.kit.waiting import wait_for

_LIST = Path(__file__).with_name("broker.xml")
_START_SECONDS = 60


class Broker:
    """One node, whose data stay where it is when it is killed and started again.

    Args:
        password: of a user `ada` who may log in at `secure_servers`, which speak TLS; `authority` is the file
            with the certificate. None: nobody may.
    """

    def __init__(self, folder: Path, password: str | None = None) -> None:
        self.folder = folder
        self.port, controller, secure = _free_ports(3)
        self.servers, self.secure_servers = f"127.0.0.1:{self.port}", f"127.0.0.1:{secure}"
        self.authority = folder / "authority.pem"
        self._child: subprocess.Popen[bytes] | None = None
        folder.mkdir(parents=True, exist_ok=True)
        properties = _PROPERTIES.format(port=self.port, controller=controller, data=folder / "data")
        if password is not None:
            self._make_certificate()
            properties += _SECURE.format(
                port=self.port, controller=controller, secure=secure, folder=folder, password=password
            )
        self._properties.write_text(properties)
        self._tool(
            "kafka.tools.StorageTool", "format", "-t", "MkU3OEVBNTcwNTJENDM2Qg", "-c", str(self._properties)
        )

    @property
    def _properties(self) -> Path:
        return self.folder / "server.properties"

    def start(self) -> None:
        log = (self.folder / "server.log").open("ab")
        with log:
            self._child = subprocess.Popen(
                self._command("kafka.Kafka", str(self._properties)),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        deadline = time.monotonic() + _START_SECONDS
        while not self._listens():
            assert self._child.poll() is None, (self.folder / "server.log").read_text()[-2_000:]
            assert time.monotonic() < deadline, "the broker does not listen"
            time.sleep(0.1)

    def _make_certificate(self) -> None:
        store = ["-keystore", str(self.folder / "keys.p12"), "-storepass", "keystore", "-alias", "broker"]
        name = ["-dname", "CN=broker", "-ext", "san=ip:127.0.0.1", "-keyalg", "RSA", "-validity", "2"]
        exported = ["-exportcert", "-rfc", "-file", str(self.authority)]
        keytool = java_command().removesuffix("java") + "keytool"
        for arguments in (["-genkeypair", *name], exported):
            subprocess.run([keytool, *arguments, *store], check=True, capture_output=True)

    def kill(self) -> None:
        if self._child is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._child.pid, signal.SIGKILL)
            self._child.wait()
            self._child = None

    def create(self, name: str, partitions: int = 1, **settings: str) -> "Records":
        """Make a topic that keeps its records. Settings are Kafka's, with underscores in place of dots."""
        config = {"retention.ms": "-1"} | {key.replace("_", "."): value for key, value in settings.items()}
        admin = self.admin  # its answers go with it
        admin.create_topics([NewTopic(name, partitions, 1, config=config)])[name].result()
        wait_for(lambda: name in admin.list_topics(timeout=10).topics, 0.05)  # the broker hears of it later
        return Records(self, name)

    @property
    def admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.servers})

    def _listens(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def _tool(self, *arguments: str) -> None:
        done = subprocess.run(self._command(*arguments), capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr

    def _command(self, *arguments: str) -> list[str]:
        folder = Path(sys.prefix) / "share" / "acker" / "broker"
        classes = os.pathsep.join(map(str, fetched(_LIST, folder)))
        return [java_command(), "-Xmx512m", "-XX:TieredStopAtLevel=1", "-cp", classes, *arguments]


class Records:
    """A topic and ways to fill it and take from it."""

    def __init__(self, broker: Broker, name: str) -> None:
        self.broker = broker
        self.name = name

    def add(
        self, *values: str | bytes | None, partition: int = 0, key: str | None = None, **more: Any
    ) -> None:
        """Write records, each as it comes."""
        producer = Producer({"bootstrap.servers": self.broker.servers})
        self._write(producer, values, partition, key, more)
        assert producer.flush(30) == 0

    def add_in_transaction(self, *values: str, end: str, partition: int = 0) -> Producer:
        """Write records in a transaction, and then `commit`, `abort` or leave it `open`."""
        settings = {"bootstrap.servers": self.broker.servers, "transactional.id": f"{self.name}-{end}"}
        producer = Producer(settings)
        producer.init_transactions(30)
        producer.begin_transaction()
        self._write(producer, values, partition, None, {})
        assert producer.flush(30) == 0
        if end == "commit":
            producer.commit_transaction(30)
        elif end == "abort":
            producer.abort_transaction(30)
        if end != "open":  # the marker comes a moment later
            wait_for(
                lambda: self._end(partition, committed=True) == self._end(partition, committed=False), 0.05
            )
        return producer

    def _end(self, partition: int, committed: bool) -> int:
        at = Partition(self.name, partition)
        return Cluster(self.broker.servers).ends([at], committed)[at]

    def _write(
        self,
        producer: Producer,
        values: Sequence[str | bytes | None],
        partition: int,
        key: str | None,
        more: dict[str, Any],
    ) -> None:
        for value in values:
            producer.produce(self.name, value, key, partition, **more)
            producer.poll(0)

    def offsets(self, partition: int = 0) -> list[int]:
        """The offsets that the partition holds."""
        group = {"group.id": "tests", "enable.auto.commit": False, "enable.partition.eof": True}
        consumer = Consumer({"bootstrap.servers": self.broker.servers, **group})
        consumer.assign([TopicPartition(self.name, partition, OFFSET_BEGINNING)])
        try:
            found = []
            while True:
                message = consumer.poll(10)
                assert message is not None, "no answer"
                if message.error():
                    assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
                    return found
                found.append(message.offset())
        finally:
            consumer.close()

    def grow(self, partitions: int) -> None:
        admin = self.broker.admin
        admin.create_partitions([NewPartitions(self.name, partitions)])[self.name].result()

    def delete(self) -> None:
        admin = self.broker.admin
        admin.delete_topics([self.name])[self.name].result()

    def forget(self, before: int, partition: int = 0) -> None:
        """Drop the records before an offset, as retention does."""
        at = TopicPartition(self.name, partition, before)
        admin = self.broker.admin
        admin.delete_records([at])[at].result()


@contextlib.contextmanager
def running_broker(folder: Path, password: str | None = None) -> Iterator[Broker]:
    broker = Broker(folder, password)
    try:
        broker.start()
        yield broker
    finally:
        broker.kill()


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


_PROPERTIES = """\
process.roles=broker,controller
node.id=1
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
controller.quorum.voters=1@127.0.0.1:{controller}
log.dirs={data}
auto.create.topics.enable=false
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
log.retention.check.interval.ms=500
log.cleaner.backoff.ms=200
log.segment.delete.delay.ms=100
log.initial.task.delay.ms=100
"""

_SECURE = """\
listeners=PLAINTEXT://127.0.0.1:{port},SECURE://127.0.0.1:{secure},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port},SECURE://127.0.0.1:{secure}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SECURE:SASL_SSL,CONTROLLER:PLAINTEXT
listener.name.secure.sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256
listener.name.secure.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule \\
    required user_ada="{password}";
listener.name.secure.scram-sha-256.sasl.jaas.config=\\
    org.apache.kafka.common.security.scram.ScramLoginModule required;
listener.name.secure.ssl.keystore.type=PKCS12
listener.name.secure.ssl.keystore.location={folder}/keys.p12
listener.name.secure.ssl.keystore.password=keystore
"""

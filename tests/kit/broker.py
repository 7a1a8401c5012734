"""The product's Kafka broker as tests have it: it can be killed, and has topics that are quickly filled."""

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from acker.kafka import groups
from acker.kafka.cluster import Cluster, Partition
from acker.runtime.server.java import java_command
from acker.runtime.server.ports import free_port
from embedded import broker
from tests.kit.waiting import wait_for


class Broker(broker.Broker):
    """A broker that waits for nothing.

    Args:
        password: of a user `ada` who may log in at `secure_servers`, which speak TLS; `authority` is the file
            with the certificate. None: nobody may.
        more: further settings of Kafka's, which replace the broker's own.
    """

    def __init__(
        self, folder: Path, password: str | None = None, more: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(folder, more=_QUICK)
        self.authority = folder / "authority.pem"
        if password is not None:
            secure = free_port()
            self.secure_servers = f"127.0.0.1:{secure}"
            self.more |= _secure(self.servers, self.secure_servers, self.controller_port, password)
            folder.mkdir(parents=True, exist_ok=True)
            self._make_certificate()
        self.more |= more or {}

    def _make_certificate(self) -> None:
        store = ["-keystore", str(self.folder / "keys.p12"), "-storepass", "keystore", "-alias", "broker"]
        name = ["-dname", "CN=broker", "-ext", "san=ip:127.0.0.1", "-keyalg", "RSA", "-validity", "2"]
        exported = ["-exportcert", "-rfc", "-file", str(self.authority)]
        keytool = java_command().removesuffix("java") + "keytool"
        for arguments in (["-genkeypair", *name], exported):
            subprocess.run([keytool, *arguments, *store], check=True, capture_output=True)

    def kill(self) -> None:
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            self.process = None

    def settle(self) -> None:
        """Wait until it takes transactions and offsets of groups, as it does seconds after its start."""
        self.create("settled").add_in_transaction("x", end="commit")
        groups.commit(Cluster(self.servers), "settled", {Partition("settled", 0): 1})

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
def running_broker(
    folder: Path, password: str | None = None, more: Mapping[str, str] | None = None
) -> Iterator[Broker]:
    broker = Broker(folder, password, more)
    try:
        broker.start()
        yield broker
    finally:
        broker.kill()


_QUICK = {
    "group.initial.rebalance.delay.ms": "0",
    "log.retention.check.interval.ms": "500",
    "log.cleaner.backoff.ms": "200",
    "log.segment.delete.delay.ms": "100",
    "log.initial.task.delay.ms": "100",
}


def _secure(servers: str, secure: str, controller_port: int, password: str) -> dict[str, str]:
    advertised = f"PLAINTEXT://{servers},SECURE://{secure}"
    security = "org.apache.kafka.common.security"
    return {
        "listeners": f"{advertised},CONTROLLER://127.0.0.1:{controller_port}",
        "advertised.listeners": advertised,
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SECURE:SASL_SSL,CONTROLLER:PLAINTEXT",
        "listener.name.secure.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
        "listener.name.secure.plain.sasl.jaas.config": (
            f'{security}.plain.PlainLoginModule required user_ada="{password}";'
        ),
        "listener.name.secure.scram-sha-256.sasl.jaas.config": f"{security}.scram.ScramLoginModule required;",
        "listener.name.secure.ssl.keystore.type": "PKCS12",
        "listener.name.secure.ssl.keystore.location": "keys.p12",
        "listener.name.secure.ssl.keystore.password": "keystore",
    }

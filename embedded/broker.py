"""A Kafka broker of one node, for trying and for tests: a process that ends with this one.

It listens on 127.0.0.1 alone and knows no users. Its data lie in its folder and stay there: a broker that is
started again has them. Its jars, which `broker.xml` lists, are fetched once.
"""

import contextlib
import fcntl
import logging
import os
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from acker.core.errors import ServerError
from acker.runtime.home import writing
from acker.runtime.server.jars import fetched, kept_in
from acker.runtime.server.java import check_java, java_command
from acker.runtime.server.logs import last_words
from acker.runtime.server.ports import check_free, free_ports, is_listening
from acker.runtime.settings import LOOPBACK
from embedded import process_guard as guard

_LIST = Path(__file__).with_name("broker.xml")
_START_SECONDS = 120
_ANSWER_SECONDS = 5
_POLL_SECONDS = 0.1
_log = logging.getLogger(__name__)

# Kafka wants the id of a cluster when it makes a data folder: any 16 bytes in base64. This cluster meets no
# other.
_CLUSTER = "MkU3OEVBNTcwNTJENDM2Qg"

_SETTINGS = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    # Below the current folder, which is the broker's. A list would be split at commas, which a path may hold.
    "log.dirs": "data",
    "auto.create.topics.enable": "false",
    # Kafka's own topics, which by default want three brokers.
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
}


class Broker:
    """A broker that is started and stopped, any number of times, at one address.

    Args:
        folder: the folder of the broker's data, settings and log.
        port: where the broker listens; a free port by default.
        more: further settings of Kafka's, which replace the broker's own.
    """

    def __init__(self, folder: Path, port: int | None = None, more: Mapping[str, str] | None = None) -> None:
        free, self.controller_port = free_ports(2)
        self.folder = folder
        self.port = port or free
        self.more = dict(more or {})
        self.process: subprocess.Popen[bytes] | None = None  # its guard's, which leads the process group

    @property
    def servers(self) -> str:
        """The address to which clients connect."""
        return f"{LOOPBACK}:{self.port}"

    @property
    def is_running(self) -> bool:
        """Whether the broker was started and has not ended."""
        return self.process is not None and self.process.poll() is None

    def start(self) -> None:
        """Start the broker on the data in its folder. Returns once it answers.

        Raises:
            ServerError: the broker does not come up. The message says why and names the log.
        """
        check_java()
        check_free(LOOPBACK, self.port, "Free it: the Kafka broker listens there.")
        with self._locked() as lock:
            with writing(self.folder):
                self._write_settings()
                if self._log.exists():
                    self._log.replace(self._log.with_suffix(".log.old"))  # the one before may have died of it
            if not (self.folder / "data" / "meta.properties").exists():  # which is written last
                self._format()
            command = self._command("kafka.Kafka")
            self.process = guard.start(command, self._log, folder=self.folder, held=[lock])
        try:
            self._await()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop the broker, and wait until it is gone."""
        if self.process is not None:
            guard.stop([self.process])
            self.process = None

    @property
    def _log(self) -> Path:
        return self.folder / "broker.log"

    @contextlib.contextmanager
    def _locked(self) -> Iterator[int]:
        """The descriptor of the folder's lock, held until all processes that were given it have ended.

        Kafka has a lock of its own, but reads its data before it takes that lock. Data that another broker is
        writing just then would look damaged.
        """
        with writing(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
            lock = (self.folder / "lock").open("w")
        with lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise ServerError(
                    f"The Kafka broker did not start: another one is using {self.folder}. Use that one, or "
                    "stop it first."
                ) from error
            yield lock.fileno()

    def _write_settings(self) -> None:
        listeners = f"PLAINTEXT://{self.servers}"
        ours = {
            "listeners": f"{listeners},CONTROLLER://{LOOPBACK}:{self.controller_port}",
            "advertised.listeners": listeners,
            "controller.quorum.voters": f"1@{LOOPBACK}:{self.controller_port}",
        }
        settings = _SETTINGS | ours | self.more
        lines = (f"{name}={value}\n" for name, value in settings.items())
        (self.folder / "broker.properties").write_text("".join(lines))

    def _format(self) -> None:
        command = self._command("kafka.tools.StorageTool", "format", "-t", _CLUSTER, "-c")
        with self._log.open("wb") as output:
            done = subprocess.run(command, cwd=self.folder, stdout=output, stderr=output)
        if done.returncode != 0:
            raise ServerError(f"The Kafka broker's folder could not be set up: {last_words(self._log)}")

    def _await(self) -> None:
        deadline = time.monotonic() + _START_SECONDS
        while not (is_listening(LOOPBACK, self.port) and self._answers()):
            if not self.is_running:
                raise ServerError(f"The Kafka broker did not start: {last_words(self._log)}")
            if time.monotonic() > deadline:
                raise ServerError(
                    f"The Kafka broker did not start within {_START_SECONDS} s: {last_words(self._log)}"
                )
            time.sleep(_POLL_SECONDS)

    def _answers(self) -> bool:
        """Whether this broker listens and serves. It listens before it looks for its data."""
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient

        admin = AdminClient({"bootstrap.servers": self.servers}, logger=_log)
        try:
            found = admin.describe_cluster(request_timeout=_ANSWER_SECONDS).result()
        except KafkaException:
            return False
        return any(node.port == self.port for node in found.nodes)

    def _command(self, *arguments: str) -> list[str]:
        classes = os.pathsep.join(map(str, fetched(_LIST, kept_in("broker", _LIST))))
        options = ["-Xmx512m", "-XX:TieredStopAtLevel=1", "-cp", classes]
        return [java_command(), *options, *arguments, "broker.properties"]


@contextlib.contextmanager
def running_broker(folder: Path, port: int | None = None) -> Iterator[Broker]:
    """A broker that runs until the block is left, however that happens.

    Raises:
        ServerError: the broker does not start.
    """
    broker = Broker(folder, port)
    try:
        broker.start()
        yield broker
    finally:
        broker.stop()

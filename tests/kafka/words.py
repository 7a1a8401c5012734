"""Words that are published to a topic, and a process that publishes them and is killed on the way."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.sql import functions as F

from acker import Count, ExponentialBackoff, KafkaTarget, Topology, fail_when
from acker.batches.run import Run
from acker.core.errors import SourceError
from acker.core.store.store import Store
from acker.kafka import sending
from acker.operations.publish import publish
from acker.spouts import FileSpout
from acker.targets import kafka
from tests.faults.worker import begin, end_of, session


@dataclass(frozen=True)
class Words:
    """Lines of a word and a number; a line whose number is negative fails until it is mended.

    Args:
        counted: what is published is a running aggregate, whose changed rows go to the target.
    """

    folder: Path
    target: KafkaTarget
    counted: bool = False

    def topology(self) -> Topology:
        topology = Topology("words", retry=ExponentialBackoff(initial_seconds=60, limit=1))
        source = FileSpout(str(self.folder / "lines"), format="json", schema="word string, n int")
        lines = topology.spout("lines", source)
        is_mended = (self.folder / "mended").exists

        @topology.bolt(lines)
        def checked(tuples):
            is_bad = (F.col("n") < 0) & F.lit(not is_mended())
            return tuples.select("anchor", "word", "n", fail_when(is_bad, "negative"))

        if self.counted:
            counts = str(self.folder / "counts")
            topology.publish(checked, counts, by="word", aggregates={"n": Count()}, topic=self.target)
        else:
            topology.publish(checked, self.target)
        return topology

    def mend(self) -> None:
        (self.folder / "mended").touch()

    def feed(self, name: str, *pairs: tuple[str, int]) -> None:
        folder = self.folder / "lines"
        folder.mkdir(exist_ok=True)
        text = "".join(f'{{"word": "{word}", "n": {n}}}\n' for word, n in pairs)
        (folder / f"{name}.json").write_text(text)


@contextmanager
def cut_short(monkeypatch: pytest.MonkeyPatch, rows: int, parts: int) -> Iterator[list[int]]:
    """Folds are sent in parts of so many rows, and after so many parts no more. What each had is told."""
    sent, each = kafka.Sender.send, []

    def send(self: kafka.Sender, *what: Any) -> sending.Part:
        if len(each) == parts:
            raise SourceError("cut short")
        part = sent(self, *what)
        each.append(part.count)
        return part

    with monkeypatch.context() as patched, pytest.raises(SourceError, match="cut short"):
        patched.setattr(kafka, "PART_ROWS", rows)
        patched.setattr(kafka.Sender, "send", send)
        yield each


@dataclass(frozen=True)
class Moment:
    """When a process is killed: before or after a call of its producer, counted from 1."""

    call: str
    count: int = 1
    is_after: bool = False


def publish_until(moment: Moment, words: Words, remote: str) -> None:
    """Publish in a process of its own, which is killed with SIGKILL at a moment."""
    assert end_of(begin(_publish, moment, words, remote)) == -signal.SIGKILL


def _publish(moment: Moment, words: Words, remote: str) -> None:
    calls = 0

    class Dying(Producer):
        def _called(self, name: str, *args: Any, **kwargs: Any) -> Any:
            nonlocal calls
            calls += name == moment.call
            is_now = name == moment.call and calls == moment.count
            if is_now and not moment.is_after:
                os.kill(os.getpid(), signal.SIGKILL)
            result = getattr(super(), name)(*args, **kwargs)
            if is_now:
                self.flush(10)  # so that the brokers have it
                os.kill(os.getpid(), signal.SIGKILL)
            return result

        def init_transactions(self, *args: Any) -> Any:
            return self._called("init_transactions", *args)

        def produce(self, *args: Any, **kwargs: Any) -> Any:
            return self._called("produce", *args, **kwargs)

        def commit_transaction(self, *args: Any) -> Any:
            return self._called("commit_transaction", *args)

    sending.Producer = Dying  # type: ignore[misc]
    spark = session(remote)
    topology = words.topology()
    topology.validate()
    publish(Run(topology, Store(str(words.folder / "store"), topology.name), lambda: spark))

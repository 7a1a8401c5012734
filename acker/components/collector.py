"""Rich bolts: classes that ack, fail and hold back each tuple themselves, and emit tuples for it.

This is Storm's OutputCollector on batches. Storm keeps a tuple in a worker's memory until a bolt acks it. A
batch of Spark cannot: a tuple that `execute` has neither acked nor failed when the batch ends is held back,
and is the first that the bolt is given in its next batch, until the message has settled. So a bolt's memory
lasts one batch, and builds up again from the tuples that it holds.

The module is pickled by value, so a worker needs PySpark and PyArrow and not this project.
"""

import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from pyspark import cloudpickle
from pyspark.sql import Row

from acker.components.emitted import Form
from acker.core import reasons
from acker.core.reasons import LONGEST_TOLD
from acker.core.stream_names import parts_of

for _module in (reasons, sys.modules[__name__]):
    cloudpickle.register_pickle_by_value(_module)  # type: ignore[no-untyped-call]

# What user code raises whatever the tuple: a module that is not installed, a machine without memory.
NO_TUPLES_FAULT = (ImportError, MemoryError)
PLACE = ("stream", "file", "row", "batch", "since", "task")  # where a tuple lies, since when, and who has it
_OPEN, _ACKED, _FAILED = range(3)
ALL = "*"  # stands for all columns, as a JSON object

Forms = Mapping[str | None, Form]  # of each stream of a bolt; None is its first
_OWN = ("component", "held", "stream", "values")  # attributes of a tuple beside its columns


class PermanentFailure(Exception):
    """A bolt raises this where a tuple will never pass; the tuple's messages become dead letters at once.

    Attributes:
        fails_for_good: always True, by which a worker knows the exception.
    """

    fails_for_good = True


@dataclass(frozen=True)
class Context:
    """The place where an instance of a rich bolt runs.

    Args:
        topology: the name of the topology.
        component: the name of the bolt.
        batch: the number of the batch.
        task: the number of the instance's task, from 0.
        tasks: how many tasks the bolt has.
    """

    topology: str
    component: str
    batch: int
    task: int  # from 0
    tasks: int


class Tuple:
    """One tuple that a rich bolt is given; `tup.word` and `tup["word"]` are its values.

    A column goes before an attribute of the same name, such as `held`. The name with an underscore, `_held`,
    always is the attribute, since no column's name begins so.

    Attributes:
        values: all values, by name.
        component: the component that emitted the tuple.
        stream: the further stream by which the tuple came; None for the component's first stream.
        held: whether an earlier batch has held the tuple back.

    Args:
        values: the values, a Row.
        name: the stream of the tuple, as `component` or `component.stream`.
        held: see above.
        roots: the roots of the tuple's messages; none where it is not tracked.
        place: the place of the tuple, as in the stream's column `_held`.
        texts: the columns of `as_text` as text, if any.
    """

    __slots__ = ("_component", "_held", "_place", "_roots", "_state", "_stream", "_texts", "_values")

    def __init__(
        self,
        values: Row,
        name: str,
        held: bool,
        roots: list[int],
        place: tuple[Any, ...],
        texts: Row | None = None,
    ) -> None:
        self._values = values
        self._texts = texts
        self._component, further = parts_of(name)
        self._stream = further or None
        self._held = held
        self._roots = roots  # none where it is not tracked
        self._place = place  # where it lies, as in the stream's column _held
        self._state = _OPEN

    def __getattr__(self, name: str) -> Any:
        if name in self.__slots__:  # while a copy is being made
            raise AttributeError(name)
        if name in _OWN and name not in self._values:
            return getattr(self, f"_{name}")
        return getattr(self._values, name)

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def text(self, column: str) -> Any:
        """A value as Spark writes it: text, bytes as they are, or None.

        Args:
            column: a column that the bolt's class names in `as_text`; "*": all columns, as a JSON object.

        Returns:
            The text or the bytes of the value.

        Raises:
            ValueError: the class does not name the column, or the tuple lacks it.
        """
        if self._texts is None or column not in self._texts:
            raise ValueError(f"a tuple has no text of {column}; name a column of it in as_text")
        return self._texts[column]

    def __repr__(self) -> str:
        return f"Tuple({self._values!r}, component={self._component!r}, held={self._held})"


class RichBolt(ABC):
    """Base of rich bolts. An instance serves one task of one batch.

    Attributes:
        as_text: the columns whose values `tup.text(column)` gives as Spark writes them; "*": all columns, as
            a JSON object.
    """

    as_text: ClassVar[tuple[str, ...]] = ()

    def prepare(self, context: Context) -> None:
        """Set up the instance; called before the first tuple.

        Args:
            context: the place where the instance runs.
        """

    @abstractmethod
    def execute(self, tup: Tuple, collector: "Collector") -> None:
        """Take in a tuple: first those that were held back, then new ones, in the order in which they came.

        An exception undoes all that this call has asked of the collector, and fails the tuple.

        Args:
            tup: the tuple.
            collector: takes the tuples that the bolt emits, acks and fails.
        """

    def finish_batch(self, collector: "Collector") -> None:
        """Act on the batch as a whole, after its last tuple. Tuples may be acked, failed and emitted here.

        Tuples that are neither acked nor failed afterwards are held back. An exception is no tuple's fault:
        the batch is held, and tried again later.

        Args:
            collector: takes the tuples that the bolt emits, acks and fails.
        """

    def cleanup(self) -> None:
        """Give back what `prepare` took; called after the last tuple."""


class Collector:
    """The reports of one call of `execute` or `finish_batch`.

    Args:
        forms: the columns of each stream of the bolt.

    Attributes:
        emitted: the rows of the tuples that were emitted so far.
        reports: the acks, failures and resets so far: the kind, the tuple and the reason of each.
    """

    def __init__(self, forms: Forms) -> None:
        self._forms = forms
        self.emitted: list[dict[str, Any]] = []
        self.reports: list[tuple[str, Tuple, str]] = []

    def emit(self, anchors: Tuple | Iterable[Tuple] | None, values: Any, stream: str | None = None) -> None:
        """Emit a tuple.

        Args:
            anchors: the tuples from which the new one came. It belongs to the messages of all of them, which
                are acked, failed and published together. None: the new tuple belongs to no message, and is
                published whatever becomes of the messages.
            values: a dict by column, or a tuple or list of all columns; a tuple that the bolt was given too.
            stream: one of the bolt's further streams; None: its first.

        Raises:
            ValueError: the bolt has no such stream, or the stream no such columns.
        """
        if stream not in self._forms:
            raise ValueError(f"emitted to the stream {stream!r}, which the bolt does not have")
        tuples: Iterable[Tuple] = (anchors,) if isinstance(anchors, Tuple) else anchors or ()
        roots = {root for tup in tuples for root in tup._roots}
        given = values._values if isinstance(values, Tuple) else values
        row = self._forms[stream].row(given)
        self.emitted.append({**of_roots(sorted(roots)), "_stream": stream, **row})

    def ack(self, tup: Tuple) -> None:
        """Report a tuple as done. A second ack fails it, so that its message cannot complete falsely.

        Args:
            tup: the tuple.
        """
        self.reports.append(("ack", tup, ""))

    def fail(self, tup: Tuple, reason: str = "failed by the bolt", retry: bool = True) -> None:
        """Report that a tuple cannot be done; all its messages are tried again.

        Args:
            tup: the tuple.
            reason: the reason, for people.
            retry: whether the messages are tried again. False: the tuple never can be done, so its messages
                become dead letters at once.
        """
        self.reports.append(("fail" if retry else "reject", tup, str(reason)))

    def reset_timeout(self, tup: Tuple) -> None:
        """Let the time of the tuple's messages start again.

        Args:
            tup: the tuple.
        """
        self.reports.append(("reset", tup, ""))


class Task:
    """One instance of a rich bolt at work on its share of a batch."""

    def __init__(self, bolt: RichBolt, context: Context, forms: Forms) -> None:
        self.number = context.task
        self._bolt = bolt
        self._forms = forms
        self._open: dict[Tuple, None] = {}  # in the order in which they came
        self._reports: list[dict[str, Any]] = []
        bolt.prepare(context)

    def execute(self, tup: Tuple) -> list[dict[str, Any]]:
        """The rows that the bolt emits for a tuple, each with `_cause`, the roots of the tuple."""
        self._open[tup] = None
        collector = Collector(self._forms)
        try:
            self._bolt.execute(tup, collector)
        except NO_TUPLES_FAULT:
            raise
        except Exception as error:  # whatever else the user's code raises is the tuple's failure
            self._fail(tup, error)
            return []
        return self._done(collector, tup._roots)

    def _done(self, collector: Collector, cause: list[int]) -> list[dict[str, Any]]:
        """Take note of the reports of a call. Return the rows that were emitted."""
        for report, other, reason in collector.reports:
            reports = {"ack": self._ack, "fail": self._fail, "reject": self._reject, "reset": self._reset}
            reports[report](other, reason)
        return [{**row, "_cause": cause} for row in collector.emitted]

    def finish(self) -> list[dict[str, Any]]:
        """The rows that the bolt emits at the end, and those that tell of tuples that are not acked."""
        collector = Collector(self._forms)
        cause = sorted({root for tup in self._open for root in tup._roots})
        self._bolt.finish_batch(collector)
        emitted = self._done(collector, cause)
        self._bolt.cleanup()
        held = [
            {**of_roots(tup._roots), "_kind": "held", "_held": dict(zip(PLACE, tup._place, strict=True))}
            for tup in self._open
        ]
        return emitted + self._reports + held

    def _ack(self, tup: Tuple, reason: str) -> None:
        if tup._state == _ACKED:
            self._fail(tup, "acked twice")
        elif tup._state == _OPEN:
            tup._state = _ACKED
            del self._open[tup]

    def _fail(self, tup: Tuple, reason: str | Exception) -> None:
        if tup._state != _FAILED:
            tup._state = _FAILED
            self._open.pop(tup, None)
            self._reports.append({**of_roots(tup._roots), **failure(reason)})

    def _reject(self, tup: Tuple, reason: str) -> None:
        self._fail(tup, PermanentFailure(reason))

    def _reset(self, tup: Tuple, reason: str) -> None:
        self._reports.append({**of_roots(tup._roots), "_kind": "reset"})


def of_roots(roots: list[int]) -> dict[str, Any]:
    """The columns of a stream that say to which roots, in order, a tuple belongs."""
    return {"_root_id": roots[0] if roots else None, "_root_ids": roots if len(roots) > 1 else None}


def failure(reason: str | Exception) -> dict[str, Any]:
    """The columns of a stream that fail a row's roots."""
    # By its attribute, since the class that a worker imports is another than the one that was pickled.
    for_good = getattr(reason, "fails_for_good", False) is True
    is_plain = isinstance(reason, str) or for_good
    told = getattr(reason, "told", reason)
    text = str(reason) if is_plain else f"{type(reason).__name__}: {told}"
    return {"_kind": "reject" if for_good else "fail", "_error": text[:LONGEST_TOLD]}

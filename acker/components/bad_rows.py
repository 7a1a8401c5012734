"""Finding the messages for which a transformation raises, when Spark only says that a row somewhere did.

Without ANSI mode Spark makes a null of a value that an expression cannot take, and does not raise. So one run
without ANSI mode tells the suspects: messages with a null in a row that they made, or without any row. If the
other messages pass, the suspects alone are searched. An error that is raised in either mode (a UDF,
`raise_error`) has no suspects, and all messages are searched.

A range of messages that raises is run in quarters, several at once, until single messages remain. m bad
messages among s suspects cost about 4 · m · log4(s / m) + 4/3 · m runs of the transformation, over ever
smaller parts.

Tuples may raise only where they meet, as in a join. Then each quarter of a range passes, and the two halves
are run. If both halves pass, one more run has them together. If that run raises, each half is divided, and
its parts are run beside the whole other half.

A message may also end a Python worker, by a crash or by the system's out-of-memory killer. Such a message is
searched for in the same way, but alone it has to end three workers. If all parts of a range pass alone, no
message of the range is at fault.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from acker.components.bad_parts import Filtered, Frames, Parts, Range, local, without
from acker.components.raising import ENDED, TRIES, ends_worker, error_of, row_error
from acker.core.errors import BoltError
from acker.core.quoting import sql_name
from acker.core.reasons import LONGEST_REASON
from acker.spark.trees import any_of, union_of

MOST_BAD = 32  # past this the bolt may be at fault and not the rows
_WAYS = 4  # as many runs as two levels of halves, and half as many of them raise
_AT_ONCE = 4  # runs of small parts, most of whose time is planning
_MOST_LOCAL = 10_000  # suspects whose tuples this process holds
_ANSI = "spark.sql.ansi.enabled"


def bad_roots(
    bolt: str,
    inputs: Frames,
    rows_of: Callable[[Frames], DataFrame],
    error: PySparkException,
    may_all_crash: bool = True,
    kind: str = "Bolt",
) -> dict[int, str]:
    """The roots of a batch that make it raise, and why each does.

    Args:
        bolt: the component's name, for messages.
        inputs: the batch's tuples, with `_root_id`.
        rows_of: the transformation.
        error: the error that the transformation raised over all of these tuples.
        may_all_crash: whether each of several messages may end a worker by itself, as where all of them have
            failed before.
        kind: "Spout" or "Bolt".

    Raises:
        BoltError: most messages fail.
        PySparkException: an error that no single message causes.
    """
    roots = None if ends_worker(error) else _suspects(inputs, rows_of)
    if roots is None:
        roots = _ids(inputs).distinct().toArrow()["_root_id"].to_pylist()
    if not roots:
        raise error
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        bad = _Search(f"{kind} {bolt}", inputs, rows_of, sorted(roots), ends_worker(error)).run(
            threads, error
        )
    if 1 < len(roots) == len(bad) and set(bad.values()) == {ENDED} and not may_all_crash:
        raise _at_fault(f"{kind} {bolt}", "every message", ENDED)
    return bad


def _at_fault(component: str, which: str, reason: str) -> BoltError:
    return BoltError(
        f"{component} fails on {which} of a batch, so it is taken to be at fault itself: "
        f"{reason[:LONGEST_REASON]}. Mend it, or fail rows with fail_when, and run it again.",
        component=component.partition(" ")[2],
    )


def _ids(inputs: Frames) -> DataFrame:
    """The roots of all tuples."""
    return union_of(frame.select("_root_id") for frame in inputs.values()).dropna()


def _suspects(inputs: Frames, rows_of: Callable[[Frames], DataFrame]) -> list[int] | None:
    """The roots without which the batch passes; None where they are unknown."""
    spark = next(iter(inputs.values())).sparkSession
    before = str(spark.conf.get(_ANSI))
    spark.conf.set(_ANSI, "false")
    try:
        roots: list[int] = _with_nulls(_ids(inputs).distinct(), rows_of(inputs)).to_pylist()
    except PySparkException:
        return None
    finally:
        spark.conf.set(_ANSI, before)
    if not roots:  # what raises makes no null, as in `coalesce(cast(…), 0)`
        return None
    others = {stream: without(frame, roots) for stream, frame in inputs.items()}
    return None if error_of(rows_of(others)) else roots


def _with_nulls(ids: DataFrame, made: DataFrame) -> pa.ChunkedArray:
    """The roots that have made a row with a null, or none at all."""
    given = [F.col(sql_name(name)) for name in made.columns if not name.startswith("_")]
    has_null = any_of(column.isNull() for column in given)
    several = F.array("_root_id")
    if "_root_ids" in made.columns:
        several = F.coalesce("_root_ids", several)
    each = made.select(F.explode(several).alias("_root_id"), has_null.alias("has_null"))
    seen = each.groupBy("_root_id").agg(F.bool_or("has_null").alias("has_null"))
    found = ids.join(seen, "_root_id", "left").where(F.coalesce("has_null", F.lit(True)))
    return found.select("_root_id").toArrow()["_root_id"]


class _Failing(NamedTuple):
    """A range of roots that raises together with other ranges, which pass without it.

    Args:
        beside: the other ranges; none where the range raises alone.
        error: the error that the range raises together with them.
    """

    range: Range
    beside: tuple[Range, ...]
    error: PySparkException


@dataclass
class _Search:
    """The search for bad messages among some.

    Args:
        component: the component's kind and name, for messages.
        inputs: all tuples of the batch.
        rows_of: the transformation.
        roots: the roots that are searched, sorted.
        crashes: whether the search is for messages that end a worker.
        bad: root -> why it is bad, of those found so far.
    """

    component: str
    inputs: Frames
    rows_of: Callable[[Frames], DataFrame]
    roots: Sequence[int]
    crashes: bool
    bad: dict[int, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.parts: Parts = Filtered(self.inputs, self.roots)
        self.may_be_local = True

    def run(self, threads: ThreadPoolExecutor, error: PySparkException) -> dict[int, str]:
        """Root -> why it is bad.

        Args:
            threads: the threads that run parts at the same time.
            error: the error that all messages raise together.

        Raises:
            BoltError: most messages of the batch are bad.
            PySparkException: an error that no single message causes.
        """
        failing = [_Failing((0, len(self.roots)), (), error)]
        may_be_at_fault, ways = True, _WAYS
        while failing:
            wide = [each for each in failing if not self._is_found(each)]
            if may_be_at_fault and len(self.bad) + len(wide) > MOST_BAD:
                self._check_fault(threads)
                may_be_at_fault = False
            self._localize(wide)
            tried = [(each, part) for each in wide for part in _divided(each.range, ways)]
            raised = list(threads.map(lambda each: self._raised(each[1], *each[0].beside), tried))
            failing = [
                _Failing(part, each.beside, told)
                for (each, part), told in zip(tried, raised, strict=True)
                if told
            ]
            ways = ways * _WAYS if all(raised) else _WAYS  # nearly all may be bad
            divided = {each for (each, _), told in zip(tried, raised, strict=True) if told}
            failing += [half for each in wide if each not in divided for half in self._halves(each)]
        return self.bad

    def _localize(self, wide: Sequence[_Failing]) -> None:
        """Hold the tuples that are still to be searched in this process, once they are few."""
        ranges = {each for failing in wide for each in (failing.range, *failing.beside)}
        count = sum(high - low for low, high in ranges)
        if self.may_be_local and 0 < count <= _MOST_LOCAL:
            self.may_be_local = False
            some = {self.roots[number] for each in ranges for number in range(*each)}
            self.parts = local(self.inputs, self.roots, list(some)) or self.parts

    def _is_found(self, failing: _Failing) -> bool:
        """Whether a failing range is one message, which is then noted as bad."""
        reason = row_error(failing.error)
        if reason is None:
            raise failing.error
        low, high = failing.range
        if high - low > 1:
            return False
        self.bad[self.roots[low]] = reason
        return True

    def _halves(self, failing: _Failing) -> list[_Failing]:
        """The failing parts of a range whose quarters pass: a half, or each half beside the other."""
        (low, high), beside, error = failing
        middle = (low + high) // 2
        left, right = (low, middle), (middle, high)
        found = [
            _Failing(half, beside, raised)
            for half in (left, right)
            if (raised := self._raised(half, *beside))
        ]
        if found:
            return found
        if ends_worker(error):  # as of much memory for many messages: none is at fault
            raise error
        met = self._raised(left, right, *beside)
        if met is None:
            raise error
        return [_Failing(left, (right, *beside), met), _Failing(right, (left, *beside), met)]

    def _raised(self, *ranges: Range) -> PySparkException | None:
        # That a worker ends may be chance, so a message alone has to end several.
        is_wide = len(ranges) > 1 or ranges[0][1] - ranges[0][0] > 1
        return error_of(self.rows_of(self.parts.of(ranges)), 1 if self.crashes and is_wide else TRIES)

    def _check_fault(self, threads: ThreadPoolExecutor) -> None:
        """Stop with a BoltError where most messages of the batch are bad, as an even sample of them tells."""
        count, total = len(self.roots), _ids(self.inputs).distinct().count()
        if 2 * count <= total:
            return
        step = max(1, count // (2 * MOST_BAD))
        some = [(each, each + 1) for each in range(0, count, step)]
        own = Filtered(self.inputs, self.roots)
        tries = 1 if self.crashes else TRIES
        tried = threads.map(lambda each: error_of(self.rows_of(own.of([each])), tries), some)
        reasons = [str(row_error(raised)) for raised in tried if raised]
        if 2 * len(reasons) * count > len(some) * total:
            raise _at_fault(self.component, "most messages", reasons[0])


def _divided(whole: Range, ways: int) -> list[Range]:
    """The parts of a range: `ways` of about one length, or one for each root where there are fewer roots."""
    low, high = whole
    edges = sorted({low + (high - low) * part // ways for part in range(ways + 1)})
    return list(pairwise(edges))

"""The audit of topics by message: each attempt's number of records, compared with that of its tuples."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from types import TracebackType
from typing import Any

import numpy as np
import polars as pl

from acker.core.messages import message_name
from acker.core.snapshot.verdict import Finding
from acker.kafka.records import Found
from acker.kafka.sent import message_key
from acker.targets.acked import Acked, is_gone
from acker.targets.audit import KINDS
from acker.targets.base import Evidence
from acker.targets.contents import ROWS_AT_ONCE, Contents

_ANY = -1  # tuples that are not there any more, or of a fold of which a part is sent


class ByMessage:
    """The records of topics by the message and the attempt that their headers name, in passes.

    Args:
        fold: the newest fold of which some records may be in the topics.
    """

    def __init__(self, evidence: Evidence, fold: int) -> None:
        newest = max(fold, evidence.position)
        ledger, streams, refused = evidence.ledger, evidence.streams, evidence.refused_here
        self._acked = Acked(ledger, streams, newest, every_attempt=True, refused=refused)
        self._evidence = evidence
        self._passes = len(self._acked.passes())
        self._stack = ExitStack()
        self._found, self._wanted = (self._stack.enter_context(Contents(self._passes)) for _ in range(2))
        self._held: list[int] = []

    def __enter__(self) -> "ByMessage":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def take(self, record: Found) -> None:
        """Take in a record of a message."""
        self._held.append(_key(record))
        if len(self._held) >= ROWS_AT_ONCE:
            self._let_go()

    def _let_go(self) -> None:
        keys = np.array(self._held, np.uint64).view(np.int64)
        self._found.take(keys, np.zeros(len(keys), np.uint64))
        self._held = []

    def compare(self, records: Callable[[], Iterable[Found]]) -> dict[str, list[Finding]]:
        """Find messages with fewer or more records than tuples, and records of attempts that were not acked.

        Args:
            records: reads the records once more, where some are to be named.
        """
        self._let_go()
        for roots in self._roots():
            self._wanted.take(roots["key"].to_numpy(), roots["tuples"].to_numpy().astype(np.uint64))
        different = [self._compared(number) for number in range(self._passes)]
        wrong = {key: (found, wanted) for rows in different for key, found, wanted in rows.iter_rows()}
        findings: dict[str, list[Finding]] = {kind: [] for kind in KINDS}
        if any(wanted is not None for _, wanted in wrong.values()):
            self._name_acked(wrong, findings)
        if any(wanted is None for _, wanted in wrong.values()):
            findings["unexpected"] += _named(
                {key for key, (_, wanted) in wrong.items() if wanted is None}, records()
            )
        return findings

    def _compared(self, number: int) -> pl.DataFrame:
        """The keys of a pass that have a wrong number of records.

        Returns:
            Columns `root_id`, which holds the key, and `found` and `wanted`, the numbers of its records.
            `wanted` is null for an attempt that was not acked.
        """
        found = self._found.sums(number).select("root_id", found="rows")
        wanted = self._wanted.sums(number).select("root_id", wanted="digest")
        both = found.join(wanted, on="root_id", how="full", coalesce=True)
        counts = pl.col("found").fill_null(0) != pl.col("wanted")
        is_wrong = pl.col("wanted").is_null() | (counts & (pl.col("wanted") != _ANY))
        return both.filter(is_wrong).with_columns(pl.col("found").fill_null(0))

    def _roots(self) -> Iterator[pl.DataFrame]:
        """The acked roots, in a frame for each pass, with the columns `key` and `tuples`.

        `tuples` is the number of a root's tuples. It is `_ANY` where the tuples were trimmed, or where the
        root's fold is newer than the newest fold that the target should hold.
        """
        untold = is_gone(self._evidence.counted) | (pl.col("fold") > self._evidence.position)
        for _, roots in self._acked.with_tuples():
            keys = [_key_of(row) for row in roots.iter_rows(named=True)]
            tuples = pl.when(untold).then(_ANY).otherwise(pl.col("tuples")).alias("tuples")
            yield roots.with_columns(tuples, pl.Series("key", np.array(keys, np.uint64).view(np.int64)))

    def _name_acked(
        self, wrong: dict[int, tuple[int, int | None]], findings: dict[str, list[Finding]]
    ) -> None:
        for roots in self._roots():
            for row in roots.filter(pl.col("key").is_in(list(wrong))).iter_rows(named=True):
                found, wanted = wrong[row["key"]]
                kind = "duplicated" if found > (wanted or 0) else "lost"
                why = f"attempt {row['attempt']}: {found} of {wanted} records"
                findings[kind].append(Finding(message_name(row), why))


def _key(record: Found) -> int:
    return message_key(record.message or b"", record.attempt or b"")


def _key_of(row: dict[str, Any]) -> int:
    return message_key(message_name(row).encode(), str(row["attempt"]).encode())


def _named(keys: set[int], records: Iterable[Found]) -> Iterator[Finding]:
    """A finding for each record that has one of the keys."""
    for record in records:
        if (_key(record) + 2**63) % 2**64 - 2**63 in keys:
            message, attempt = (
                (each or b"").decode(errors="replace") for each in (record.message, record.attempt)
            )
            where = f"a record of it is at offset {record.offset} of {record.at}"
            yield Finding(message, f"attempt {attempt} was not acked, and {where}")

"""The verdict on a store, judged as Jepsen's total-queue checker judges a history, without Spark.

Every emitted message must be accounted for. A message that is missing is lost, one that nobody acked is
unexpected, one that is there twice is duplicated, and one that was acked after a failure is recovered. Each
target reports the findings of its published table (`acker/targets`).
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import polars as pl
from deltalake import DeltaTable

from acker.core.events import State
from acker.core.messages import MESSAGE, message_name
from acker.core.snapshot.integrity import missing_rows
from acker.core.snapshot.ledger import current_rows, fold_counts, newest_of
from acker.core.snapshot.refusals import unread_refusals
from acker.core.snapshot.snapshot import Snapshot
from acker.core.store.parquet import collect
from acker.core.store.schemas import EVENTS, LEDGER, stream
from acker.core.store.tables import query
from acker.core.stream_names import component_of


@dataclass(frozen=True)
class Finding:
    """A message, a root without a message, or a batch of a table, with the fault that was found."""

    message: str  # spout:partition:offset, or "root N"
    why: str


@dataclass(frozen=True)
class Compared:
    """How the published rows of a stream were compared with the acked messages.

    Args:
        to: where it is published.
        compared: number of messages whose rows were compared by content, trimmed messages all together.
        by_count: number of messages whose rows were counted.
        not_compared: number of messages whose rows were not looked at.
        why: the reasons why not all rows were compared by content; empty where all were.
    """

    to: str
    compared: int
    by_count: int
    not_compared: int
    why: tuple[str, ...] = ()


@dataclass(frozen=True)
class Overdue:
    """Rows of a stream that should have been published long ago.

    Args:
        to: where it is published.
        messages: number of acked messages whose rows are to enter the target or to leave it.
        untracked: whether tuples of no message are to enter it.
        fold: the first fold that acked some of these messages.
        since: the time of that fold.
        tries: number of tries to publish that fold, all of which raised.
        reason: the reason of the newest such try; None where there is none.
    """

    to: str
    messages: int
    untracked: bool
    fold: int
    since: datetime
    tries: int = 0
    reason: str | None = None

    def __str__(self) -> str:
        what = [f"{self.messages:,} messages"] if self.messages or not self.untracked else []
        what += ["tuples of no message"] if self.untracked else []
        tried = "once" if self.tries == 1 else f"{self.tries:,} times"
        why = f"tried {tried}: {self.reason}" if self.tries else "no try has raised"
        return (
            f"{' and '.join(what)} of fold {self.fold} and later are not published to {self.to} since "
            f"{self.since:%Y-%m-%d %H:%M} UTC; {why}"
        )


@dataclass(frozen=True)
class Audit:
    """Counts of messages, by the newest state of each, and the verdict."""

    emitted: int
    acked: int
    pending: int
    retrying: int
    dead_letter: int
    lost: int  # gone from the source, or acked and missing from a published table
    unexpected: int  # published or acked without proof
    duplicated: int  # published more than once
    recovered: int  # acked after a failed attempt
    unpublished: int  # acked in folds that some publisher has yet to publish, or refused since
    late: int  # events that the newest fold found to be of settled attempts
    dead_letters: list[Finding] = field(default_factory=list)
    findings: dict[str, list[Finding]] = field(default_factory=dict)  # lost, unexpected, duplicated
    streams: dict[str, Compared] = field(default_factory=dict)  # those that are published, by name
    overdue: dict[str, Overdue] = field(default_factory=dict)  # stream -> what is unpublished for long
    left_out: dict[str, dict[str, int]] = field(default_factory=dict)  # spout -> why -> what is never read
    # None of these fails an audit: what was acked remains right.
    changed: dict[str, str] = field(default_factory=dict)  # spout -> what is another than when it was read
    gone: dict[str, str] = field(default_factory=dict)  # spout -> what was read and is not there any more
    unknown: dict[str, str] = field(default_factory=dict)  # spout -> why its source could not be looked at

    @property
    def passed(self) -> bool:
        """Whether nothing is lost, unexpected or duplicated, and nothing unpublished for too long."""
        return not (self.lost or self.unexpected or self.duplicated or self.overdue)

    @property
    def vouches(self) -> bool:
        """Whether the audit passed, and all published rows were compared by content."""
        return self.passed and not any(each.why for each in self.streams.values())

    @property
    def verdict(self) -> str:
        """The verdict as a word: pass or fail."""
        return "pass" if self.passed else "fail"


def audit(
    snapshot: Snapshot, spouts: Collection[str], published: Mapping[str, list[Finding]], position: int
) -> Audit:
    """Audit a store whose tables are whole.

    Args:
        published: findings in the published tables, by `lost`, `unexpected` and `duplicated`.
        position: the newest fold that all published tables hold.

    Raises:
        StoreError: the store has no ledger yet, or cannot be read.
    """
    fold = snapshot.fold
    ledger = snapshot.require(LEDGER)
    newest = newest_of(fold, current_rows(fold))
    counts = _message_counts(newest)
    unfolded = _unfolded(snapshot, spouts, fold.logged if fold else {})
    given_up = _given_up(newest)
    found = {"lost": given_up["lost"], "unexpected": _unproven(ledger), "duplicated": []}
    findings = {kind: [*each, *published.get(kind, ())] for kind, each in found.items()}
    return Audit(
        emitted=sum(counts["states"].values()) + unfolded,
        acked=counts["states"].get("acked", 0),
        pending=counts["states"].get("pending", 0) + unfolded,
        retrying=counts["states"].get("retrying", 0),
        dead_letter=counts["states"].get("dead_letter", 0),
        lost=len(findings["lost"]),
        unexpected=len(findings["unexpected"]),
        duplicated=len(findings["duplicated"]),
        recovered=counts["recovered"],
        unpublished=_unpublished(ledger, position) + unread_refusals(snapshot),
        late=fold_counts(fold)["late"] if fold else 0,
        dead_letters=given_up["dead_letter"],
        findings=findings,
    )


def missing_from(snapshot: Snapshot, name: str) -> list[Finding]:
    """Batches that have other numbers of rows in a stream's table than when they were logged."""
    where = snapshot.require(stream(name)).table_uri
    return [
        Finding(f"{where} batch {batch}", f"{there} rows instead of the {logged} that were logged")
        for batch, (there, logged) in missing_rows(snapshot, component_of(name)).items()
    ]


def _message_counts(newest: pl.LazyFrame) -> dict[str, Any]:
    again = (pl.col("attempt") > 1) & pl.col("replaces").is_null()
    rows = collect(newest.group_by("state").agg(messages=pl.len(), again=again.sum())).rows(named=True)
    recovered = sum(row["again"] for row in rows if row["state"] == "acked")
    return {"states": {row["state"]: row["messages"] for row in rows}, "recovered": recovered}


def _given_up(newest: pl.LazyFrame) -> dict[str, list[Finding]]:
    """Messages that are `dead_letter` and that are `lost`, with the reason of each."""
    found: dict[str, list[Finding]] = {State.DEAD_LETTER: [], State.LOST: []}
    columns = [*MESSAGE, "state", "attempt", "component", "reason"]
    rows = newest.filter(pl.col("state").is_in(list(found))).select(columns).sort(MESSAGE)
    for row in collect(rows).iter_rows(named=True):
        where = f" in {row['component']}" if row["component"] else ""
        why = f"attempt {row['attempt']}{where}: {row['reason']}"
        found[row["state"]].append(Finding(message_name(row), why))
    return found


def _unfolded(snapshot: Snapshot, spouts: Collection[str], folded: dict[str, int]) -> int:
    """The number of messages that were emitted for the first time and that no fold has seen."""
    events = snapshot.open(EVENTS)
    if events is None or not spouts:
        return 0
    new = " OR ".join(f"(component = '{spout}' AND batch > {folded.get(spout, 0)})" for spout in spouts)
    (row,) = query(
        f"SELECT count(*) AS n FROM events WHERE kind IN ('init', 'lost') AND attempt = 1 AND ({new})",
        events=events,
    )
    return int(row["n"])


def _unproven(ledger: DeltaTable) -> list[Finding]:
    rows = query(
        "SELECT * FROM ledger WHERE state = 'acked' AND (ack_val <> 0 OR outstanding <> 0)", ledger=ledger
    )
    return [Finding(message_name(row), "acked although its tuples do not cancel out") for row in rows]


def _unpublished(ledger: DeltaTable, position: int) -> int:
    (row,) = query(
        f"SELECT count(*) AS n FROM ledger WHERE live_in IS NULL AND state = 'acked' AND fold > {position}",
        ledger=ledger,
    )
    return int(row["n"])

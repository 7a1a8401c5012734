"""What fails, and why, without Spark: messages that are not through, or what failed in folds or batches."""

from dataclasses import dataclass

from acker.core.delta import query
from acker.core.ledger import newest_rows, unfolded
from acker.core.messages import MessageId, message_of
from acker.core.schemas import EVENTS, LEDGER
from acker.core.snapshot import Snapshot
from acker.journal.journal import Journal

COMMONEST = 3
_GROUP = "component, state, split_part(reason, chr(10), 1)"
_SAMPLE = ", ".join(
    f"first_value({column} ORDER BY spout, source_partition, source_offset) AS {column}"
    for column in ("spout", "source_partition", "source_offset")
)


@dataclass(frozen=True)
class Failure:
    """Messages that failed in one component, for one reason, with one outcome.

    Args:
        component: that failed them; None where no component did, as for a timeout.
        reason: its first line.
        state: `retrying`, `dead_letter` or `lost`; `failed` of batches, which no fold has judged yet.
        count: of messages.
        sample: the message with the lowest position.
    """

    component: str | None
    reason: str
    state: str
    count: int
    sample: MessageId

    def __str__(self) -> str:
        return f"{self.count:,} × {self.reason} (such as {self.sample})"


@dataclass(frozen=True)
class Failures:
    """What fails.

    Args:
        commonest: the commonest first.
        kinds: how many there are, of which `commonest` has the first.
        count: messages of all kinds.
    """

    commonest: tuple[Failure, ...]
    kinds: int
    count: int


def failures(snapshot: Snapshot, limit: int) -> Failures:
    """The messages that failed and have not been acked since, by component, reason and state.

    Args:
        limit: at most so many kinds, 1 or more.

    Raises:
        StoreError: the ledger cannot be read.
    """
    if snapshot.fold is None:
        return Failures((), 0, 0)
    rows = f"{newest_rows(snapshot.fold.number)}, failed AS (SELECT * FROM newest)"
    return _grouped(snapshot, rows, limit)


def nothing_passed(snapshot: Snapshot, after: int) -> bool:
    """Whether first attempts failed in the folds after one, none of any was acked, and none is in flight."""
    fold = snapshot.fold
    if fold is None:
        return False
    (row,) = query(
        f"""SELECT count(*) FILTER (WHERE state IN ('acked', 'pending')) AS passed,
                count(*) FILTER (WHERE attempt = 1 AND state NOT IN ('acked', 'pending')) AS failed
            FROM ledger WHERE root_id IS NOT NULL AND state <> 'retrying'
            AND (live_in = {fold.number} OR (live_in IS NULL AND fold > {after}))""",
        ledger=fold.ledger,
    )
    return bool(row["failed"] and not row["passed"])


def commonest_failures(snapshot: Snapshot, after: int, upto: int, limit: int = COMMONEST) -> Failures:
    """The messages that failed in the folds (after, upto], by component, reason and outcome.

    Of a message the last attempt that failed there counts. Attempts that a later one superseded do not.

    Args:
        limit: at most so many kinds, 1 or more.

    Raises:
        StoreError: the ledger cannot be read.
    """
    rows = f"""
        mine AS (SELECT * FROM ledger WHERE fold > {after} AND fold <= {upto} AND live_in IS NULL),
        given_up AS (SELECT root_id AS root FROM mine WHERE state = 'dead_letter'),
        attempts AS (
            SELECT * FROM mine WHERE state IN ('dead_letter', 'lost')
            UNION ALL BY NAME
            SELECT * REPLACE ('retrying' AS state) FROM mine LEFT ANTI JOIN given_up ON root_id = root
            WHERE state IN ('failed', 'timed_out') AND reason NOT LIKE 'superseded by attempt %'),
        numbered AS (SELECT *, row_number() OVER (
            PARTITION BY spout, source_partition, source_offset ORDER BY attempt DESC, fold DESC) AS place
            FROM attempts),
        failed AS (SELECT * FROM numbered WHERE place = 1)"""
    return _grouped(snapshot, rows, limit)


def failed_in_batches(journal: Journal, component: str, after: int, limit: int = COMMONEST) -> Failures:
    """The messages in flight that failed in a component's logged batches after one of them, by reason.

    Args:
        limit: at most so many kinds.

    Raises:
        StoreError: the events or the ledger cannot be read.
    """
    fold, upto = journal.fold, journal.logged(component)
    emitted = {name: journal.logged(name) for name, role in journal.roles.items() if role == "spout"}
    message = "root_id AS root, spout, source_partition, source_offset"
    found = query(
        f"""WITH live AS (
            SELECT {message} FROM ledger WHERE live_in = {fold.number if fold else 0} AND state = 'pending'
            UNION ALL SELECT {message} FROM events WHERE kind = 'init' AND ({unfolded(fold, emitted)})),
        failed AS (SELECT DISTINCT root_id, split_part(reason, chr(10), 1) AS reason FROM events
            WHERE kind IN ('fail', 'reject') AND component = '{component}'
            AND batch > {after} AND batch <= {upto})
        SELECT reason, {_SAMPLE}, count(*) AS n, count(*) OVER () AS kinds, sum(count(*)) OVER () AS total
        FROM failed JOIN live ON root_id = root
        GROUP BY reason ORDER BY n DESC, reason LIMIT {max(limit, 1)}""",
        events=journal.require(EVENTS),
        ledger=journal.require(LEDGER),
    )
    if not found:
        return Failures((), 0, 0)
    commonest = tuple(Failure(component, row["reason"], "failed", row["n"], message_of(row)) for row in found)
    return Failures(commonest[:limit], found[0]["kinds"], found[0]["total"])


def _grouped(snapshot: Snapshot, rows: str, limit: int) -> Failures:
    """The kinds among the rows of `failed`.

    Args:
        rows: common table expressions on `ledger`, the last of them `failed`.
    """
    if snapshot.fold is None:
        return Failures((), 0, 0)
    found = query(
        f"""WITH {rows}
        SELECT component, state, coalesce(split_part(reason, chr(10), 1), '') AS reason, {_SAMPLE},
            count(*) AS n, count(*) OVER () AS kinds, sum(count(*)) OVER () AS total
        FROM failed WHERE state IN ('retrying', 'dead_letter', 'lost')
        GROUP BY {_GROUP} ORDER BY n DESC, component, reason, state LIMIT {limit}""",
        ledger=snapshot.fold.ledger,
    )
    if not found:
        return Failures((), 0, 0)
    commonest = tuple(
        Failure(row["component"], row["reason"], row["state"], row["n"], message_of(row)) for row in found
    )
    return Failures(commonest, found[0]["kinds"], found[0]["total"])

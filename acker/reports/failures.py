"""What failed and why, from the events of batches and without Spark."""

from dataclasses import dataclass

from acker.core.delta import query
from acker.core.messages import message_name
from acker.core.schemas import EVENTS
from acker.core.snapshot import Snapshot

COMMONEST = 3  # reasons that are told


@dataclass(frozen=True)
class FailedReason:
    """Messages that failed for one reason."""

    reason: str
    messages: int
    sample: str  # one of them, SPOUT:PARTITION:OFFSET

    def __str__(self) -> str:
        return f"{self.messages:,} × {self.reason} (such as {self.sample})"


@dataclass(frozen=True)
class FailedMessages:
    """Messages that failed in some batches of one component.

    Args:
        messages: how many there are.
        commonest: the commonest reasons, at most `COMMONEST`.
    """

    messages: int
    commonest: tuple[FailedReason, ...]

    @property
    def by_reason(self) -> dict[str, int]:
        """Reason -> how many messages failed for it, of the commonest."""
        return {each.reason: each.messages for each in self.commonest}

    def __str__(self) -> str:
        return "; ".join(str(each) for each in self.commonest)


def failed_in(snapshot: Snapshot, component: str, after: int) -> FailedMessages:
    """The messages that failed in a component's logged batches after one of them."""
    events = snapshot.require(EVENTS)
    upto = snapshot.logged(component)
    rows = query(
        f"""WITH failed AS (SELECT root_id, reason FROM events
            WHERE kind = 'fail' AND component = '{component}' AND batch > {after} AND batch <= {upto})
        SELECT reason, count(DISTINCT root_id) AS messages, min(root_id) AS root,
            sum(count(DISTINCT root_id)) OVER () AS total
        FROM failed GROUP BY reason ORDER BY messages DESC, reason LIMIT {COMMONEST}""",
        events=events,
    )
    if not rows:
        return FailedMessages(0, ())
    roots = ", ".join(str(row["root"]) for row in rows)
    first = query(f"SELECT * FROM events WHERE kind = 'init' AND root_id IN ({roots})", events=events)
    names = {row["root_id"]: message_name(row) for row in first}
    commonest = (
        FailedReason(row["reason"] or "", row["messages"], names.get(row["root"], f"root {row['root']}"))
        for row in rows
    )
    return FailedMessages(rows[0]["total"], tuple(commonest))

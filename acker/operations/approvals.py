"""Approvals of replays that a form asks for: which replays need one, the question, and the answers.

Each step of a request for a replay is a row of the table `replay_steps`, which only code of this library
writes. A scheduler's own notes, such as a task's state or its result, can be written by any user who may
trigger a run.
"""

import json
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

import pyarrow as pa

from acker.batches.run import Run
from acker.core.errors import SettingsError
from acker.core.quoting import sql_text
from acker.core.store.schemas import REPLAY_REQUESTS, REPLAY_STEPS, SCHEMAS
from acker.core.store.store import Store
from acker.core.store.tables import append_rows, query
from acker.operations.selection.matching import Matched
from acker.operations.selection.readable import Gone
from acker.operations.selection.requests import Request

TOGETHER = timedelta(hours=24)  # what one person asked for or emitted within it counts together


class Step(StrEnum):
    """A step in the life of a request."""

    ASKED = "asked"
    APPROVED = "approved"
    REJECTED = "rejected"
    REFUSED = "refused"  # it was to be emitted, and had to be approved and was not
    EMITTED = "emitted"


@dataclass(frozen=True)
class Told:
    """The numbers of messages of a request, as the person who approves it is told.

    Args:
        chosen: messages that the selection chose.
        partners: messages that come along, since they were settled together with chosen ones.
        acked: of both, messages whose published rows are replaced.
        gone: of both, messages that cannot be read any more.
        unchecked: sentences on spouts whose sources were not looked at, each with the reason.
    """

    chosen: int
    partners: int
    acked: int
    gone: int
    unchecked: tuple[str, ...] = ()

    @classmethod
    def of(cls, matched: Matched, gone: Gone) -> "Told":
        """The numbers of the messages that a selection found, and of those among them that are gone."""
        acked = int(matched.emissions["replaces"].is_not_null().sum())
        partners = matched.count - matched.chosen
        return cls(matched.chosen, partners, acked, gone.count, gone.unchecked)


@dataclass(frozen=True)
class ApprovalStatus:
    """The status of a request's approval, when somebody wants to emit it.

    Args:
        request: the request.
        others: how many other requests of the same person are counted together with this one against the
            limit of `must_be_approved`.
        messages: how many messages the other requests have.
        answer: the newest answer to the request; None where there is none.
    """

    request: Request
    others: int
    messages: int
    answer: Step | None

    def must_be_approved(self, limit: int) -> bool:
        """Whether the request needs an approval that it does not have.

        Args:
            limit: the most messages that one person may have emitted without the approval of another.
        """
        if self.answer is not None:
            return self.answer is Step.REJECTED
        return self.request.matched + self.messages > limit

    @property
    def together(self) -> str:
        """A sentence on the requests that count together with this one; empty where there are none."""
        if not self.others:
            return ""
        requests = "1 other request" if self.others == 1 else f"{self.others:,} other requests"
        return (
            f"Together with {requests} of {self.request.requested_by}, open or of the last "
            f"{TOGETHER // timedelta(hours=1)} hours and not approved, it is of "
            f"{self.request.matched + self.messages:,} messages."
        )


@dataclass(frozen=True)
class Question:
    """The facts that a person needs to approve a request; `together` as `ApprovalStatus` has it."""

    request: Request
    told: Told | None  # None where it was not a form that asked
    together: str


def question_of(store: Store, request: Request, now: datetime) -> Question:
    """The question that a person is asked about a request."""
    return Question(request, _told_of(store, request), approval_status(store, request, now).together)


def record_asked(run: Run, request: Request, told: Told) -> None:
    """Record that a form has asked for a replay, with the numbers of its messages, once for each request."""
    _record(run, request, Step.ASKED, request.requested_by, run.clock(), asdict(told))


def record_answer(run: Run, request: Request, is_approved: bool, who: str | None, when: datetime) -> None:
    """Record the answer of a person; `who` is None where nobody answered in time, which is a rejection."""
    step = Step.APPROVED if is_approved else Step.REJECTED
    _record(run, request, step, who, when, {}, f" {when.isoformat()}")


def record_emitted(run: Run, request: Request) -> None:
    """Record that a request was emitted, once."""
    _record(run, request, Step.EMITTED, None, run.clock(), {})


def _record(
    run: Run,
    request: Request,
    step: Step,
    who: str | None,
    when: datetime,
    told: dict[str, Any],
    apart: str = "",
) -> None:
    """Append a step of a request to the table `replay_steps`, once for each request, step and `apart`.

    Args:
        who: the person who did the step; None where nobody did.
        when: the time of the step.
        told: the facts that the step tells, which are kept as JSON.
        apart: a text that tells one step of a request from others of the same kind.
    """
    row = {
        "request_id": request.request_id,
        "plan": request.plan,
        "step": str(step),
        "done_by": who,
        "done_at": when,
        "told": json.dumps(told) if told else None,
    }
    rows = pa.Table.from_pylist([row], SCHEMAS[REPLAY_STEPS].arrow())
    append_rows(run.store.require(REPLAY_STEPS), rows, f"{request.plan} {step}{apart}", 1)


def _told_of(store: Store, request: Request) -> Told | None:
    """The numbers that were recorded when a form asked for a replay; None where no form has asked."""
    rows = query(
        f"SELECT told FROM steps WHERE plan = '{request.plan}' AND step = '{Step.ASKED}'",
        steps=store.require(REPLAY_STEPS),
    )
    return Told(**json.loads(rows[0]["told"])) if rows else None


def check_approved(run: Run, request: Request, limit: int) -> None:
    """Refuse to emit a request that has to be approved and was not, and record that somebody wanted to.

    Raises:
        SettingsError: the request was not approved, or was rejected; the error has its number of messages.
    """
    standing = approval_status(run.store, request, run.clock())
    if not standing.must_be_approved(limit):
        return
    _record(run, request, Step.REFUSED, request.requested_by, run.clock(), {}, f" {run.run_id}")
    if standing.answer is Step.REJECTED:
        why = "and a person has rejected it. Ask again, as a new request."
    else:
        together = f" {standing.together}" if standing.others else ""
        why = (
            f"and nobody has approved it.{together} More than the {limit:,} of PIPELINE_APPROVAL_LIMIT need "
            "that. Clear the task select, and it asks."
        )
    raise SettingsError(f"The request is of {request.matched:,} messages, {why}")


def approval_status(store: Store, request: Request, now: datetime) -> ApprovalStatus:
    """The status of a request's approval: its newest answer, and the other requests that count with it.

    Another request counts if it is a replay of the same person, and if each of these statements holds. The
    other request was not approved, or was rejected after its approval. It was not rejected, or was emitted.
    It was made or emitted within `TOGETHER` before `now`, or a form has asked for it and it is not emitted.
    It was emitted, or was made before this request.
    """
    since, mine = _time(now - TOGETHER), sql_text(request.request_id)
    then = _time(request.requested_at)
    (row,) = query(
        f"""
        WITH each AS (
            SELECT request_id, bool_or(step = '{Step.ASKED}') AS asked,
                max(CASE WHEN step = '{Step.EMITTED}' THEN done_at END) AS emitted_at,
                max(CASE WHEN step = '{Step.APPROVED}' THEN done_at END) AS approved_at,
                max(CASE WHEN step = '{Step.REJECTED}' THEN done_at END) AS rejected_at
            FROM steps GROUP BY request_id)
        SELECT count(*) AS others, coalesce(sum(matched), 0) AS messages
        FROM requests r LEFT JOIN each s ON r.request_id = s.request_id
        WHERE r.requested_by = {sql_text(request.requested_by)} AND r.request_id <> {mine}
            AND NOT starts_with(selection, '{{"forget"')
            AND (approved_at IS NULL OR coalesce(rejected_at > approved_at, false))
            AND (rejected_at IS NULL OR emitted_at IS NOT NULL)
            AND (requested_at > {since} OR emitted_at > {since} OR (asked AND emitted_at IS NULL))
            AND (emitted_at IS NOT NULL OR requested_at < {then}
                OR (requested_at = {then} AND r.request_id < {mine}))""",
        requests=store.require(REPLAY_REQUESTS),
        steps=store.require(REPLAY_STEPS),
    )
    return ApprovalStatus(request, row["others"], row["messages"], _answer(store, request))


def refused_since(store: Store, since: datetime) -> list[dict[str, Any]]:
    """Requests that somebody tried to emit after a time without the approval that they need.

    Requests that were approved or emitted after the newest such try are left out.

    Returns:
        Rows of `request_id`, `requested_by`, `matched`, which is the number of messages, and `refused_at`,
        which is the time of the newest such try. The newest is first.
    """
    requests, steps = store.open(REPLAY_REQUESTS), store.open(REPLAY_STEPS)
    if requests is None or steps is None:
        return []
    return query(
        f"""
        WITH each AS (
            SELECT request_id, max(CASE WHEN step = '{Step.REFUSED}' THEN done_at END) AS refused_at,
                max(CASE WHEN step IN ('{Step.APPROVED}', '{Step.EMITTED}') THEN done_at END) AS settled_at
            FROM steps GROUP BY request_id)
        SELECT r.request_id, requested_by, matched, refused_at
        FROM each s JOIN requests r ON r.request_id = s.request_id
        WHERE refused_at > {_time(since)} AND coalesce(settled_at <= refused_at, true)
        ORDER BY refused_at DESC""",
        requests=requests,
        steps=steps,
    )


def _answer(store: Store, request: Request) -> Step | None:
    """The newest answer of a person; of two answers at one moment the rejection."""
    rows = query(
        f"SELECT step FROM steps WHERE plan = '{request.plan}' "
        f"AND step IN ('{Step.APPROVED}', '{Step.REJECTED}') ORDER BY done_at DESC, step DESC LIMIT 1",
        steps=store.require(REPLAY_STEPS),
    )
    return Step(rows[0]["step"]) if rows else None


def _time(moment: datetime) -> str:
    return f"TIMESTAMP '{moment.isoformat()}'"

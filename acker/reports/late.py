"""Looks at the work: batches, folds and messages that are held, late, given up, or too many."""

from collections.abc import Callable
from datetime import datetime, timedelta

import polars as pl

from acker.batches.holds import newest_hold, unpublished_since
from acker.core.errors import AckerError
from acker.core.events import State
from acker.core.fold.files import live_count
from acker.core.names import called
from acker.core.quoting import printable
from acker.core.snapshot.in_flight import in_flight, overdue_retries, unsettled_since
from acker.core.snapshot.ledger import current_rows, live_counts, newest_of
from acker.core.snapshot.logged import logged_at, unfolded_since
from acker.core.snapshot.settled import first_folded_at
from acker.core.store.parquet import collect
from acker.core.store.schemas import ACKNOWLEDGEMENTS, LEDGER
from acker.core.store.tables import last_number
from acker.core.stream_names import component_of
from acker.operations.acknowledge import APP
from acker.operations.approvals import TOGETHER, refused_since
from acker.operations.fold import waiting_batches
from acker.operations.maintenance.upkeep import newest as newest_upkeep
from acker.operations.publish import published_upto
from acker.reports.held_back import all_held_back
from acker.reports.looks import Finding, Findings, Look, grade_of, minutes_of, time_of

_TREND = timedelta(hours=1)


def held(look: Look) -> Findings:
    """Batches that raised through no fault of a row."""
    for bolt in look.topology.bolts:
        hold = newest_hold(look.journal, bolt.name)
        if hold is not None:
            said = (
                f"{hold}. Mend it, or fail its messages with "
                f"`acker give-up {called(look.topology.name)} {bolt.name}`."
            )
            yield Finding("held", bolt.name, said, grade=f"{hold.batch}: {hold.reason}")


def unapproved(look: Look) -> Findings:
    """Replays that somebody tried to emit without the approval that they need, so that nothing was emitted.

    Each is told until it is approved or emitted, and for a day at most.
    """
    for refused in refused_since(look.store, look.now - TOGETHER):
        said = (
            f"The replay {printable(refused['request_id'])} of {refused['matched']:,} messages, which "
            f"{printable(refused['requested_by'])} asked for, was to be emitted at "
            f"{time_of(refused['refused_at'])} although nobody has approved it: nothing was emitted. Look in "
            f"Airflow's audit log who has changed the tasks of this run."
        )
        yield Finding("unapproved", refused["request_id"], said, grade=refused["refused_at"].isoformat())


def late_batches(look: Look) -> Findings:
    """Batches that are planned and not done, and logged ones that a bolt has yet to take."""
    journal, late = look.journal, look.limits.batch_late
    waits = set()
    for component in look.topology.order():  # what a spout that is gone has planned waits for its return
        name = component.name
        batch = journal.unfinished(name)
        if batch is None:
            continue
        waits.add(name)
        if newest_hold(journal, name) is None:
            for said in _late(look, f"Batch {batch.number} of {name} is not done", batch.planned_at, late):
                yield Finding("late-batches", name, said, grade=str(batch.number))
    logged = {each.name: journal.logged(each.name) for each in look.topology.order()}
    late += look.limits.publish_late - look.limits.batch_late
    for (stream, bolt), numbers in waiting_batches(look.topology, journal, logged).items():
        if bolt not in waits:
            since = _logged_at(look, component_of(stream), numbers[0])
            for said in _late(look, f"{bolt} has not taken batch {numbers[0]} of {stream}", since, late):
                yield Finding("late-batches", bolt, said, grade=grade_of(len(numbers)))


def _logged_at(look: Look, component: str, batch: int) -> datetime:
    """When a batch was logged; where its events were trimmed, when it was planned."""
    since = logged_at(look.journal, component, batch)
    return since or look.journal.read(component, batch).planned_at


def _late(look: Look, what: str, since: datetime, late: timedelta) -> list[str]:
    """A sentence on work that has waited longer than it may; no sentence where it is in time.

    Args:
        what: the beginning of the sentence, such as "Batch 3 of orders is not done".
        since: the time since which the work waits.
        late: for how long the work may wait: `batch_late` of the limits, and the pause between two runs where
            the work may have to wait for the next run.
    """
    if look.now - since <= late:
        return []
    own, pause = look.limits.batch_late, late - look.limits.batch_late
    beyond = f" and of {minutes_of(pause)} between two runs" if pause else ""
    limit = f"the {minutes_of(own)} of PIPELINE_BATCH_LATE_MINUTES{beyond}"
    return [f"{what} since {time_of(since)}, longer than {limit}."]


def late_folds(look: Look) -> Findings:
    """Events that no fold has seen."""
    journal, late = look.journal, look.limits.acker_late
    since = unfolded_since(journal, {name: journal.logged(name) for name in journal.components()})
    if since is not None and look.now - since > late:
        said = (
            f"Events are logged and not folded since {time_of(since)}, longer than the "
            f"{minutes_of(late)} of PIPELINE_ACKER_LATE_MINUTES: look at the DAG {look.topology.name}.acker."
        )
        yield Finding("late-folds", "", said)


def late_retries(look: Look) -> Findings:
    """Messages whose next attempt is due and is not emitted."""
    fold, late = look.journal.fold, look.limits.retry_late
    if fold is None:
        return
    count, since = overdue_retries(fold, look.now - late)
    if since is not None:
        said = (
            f"The next attempts of {count:,} messages are due and not emitted, the first since "
            f"{time_of(since)}, longer than the {minutes_of(late)} of PIPELINE_RETRY_LATE_MINUTES: "
            f"look at the DAG {look.topology.name}.retry."
        )
        yield Finding("late-retries", "", said, grade=grade_of(count))


def given_up(look: Look) -> Findings:
    """Dead letters and lost messages that nobody has acknowledged."""
    fold = look.journal.fold
    if fold is None:
        return
    known = last_number(look.journal.open(ACKNOWLEDGEMENTS), APP)
    given_up = pl.col("state").is_in([State.DEAD_LETTER, State.LOST])
    rows = collect(current_rows(fold).filter(given_up, pl.col("fold") > known))
    if rows.is_empty():
        return  # without a look at which messages were replayed since
    newest = collect(newest_of(fold, rows.lazy()))
    found = dict(newest.group_by("state").len().iter_rows())
    dead, lost = found.get(State.DEAD_LETTER, 0), found.get(State.LOST, 0)
    if dead > look.limits.dead_letters or lost:
        counts = [f"{n:,} {what}" for n, what in ((dead, "dead letters"), (lost, "lost")) if n]
        name, upto = look.topology.name, newest.select(pl.col("fold").max()).item()
        said = (
            f"{' and '.join(counts)} stand since fold {known}: `acker failures {called(name)}` says why, "
            f"{name}.replay emits them again, `acker acknowledge {called(name)} --fold {upto}` ends this "
            "warning."
        )
        yield Finding("given-up", "", said, grade=f"{known}: {grade_of(dead)}, {grade_of(lost)}")


def late_messages(look: Look) -> Findings:
    """Messages that have not settled."""
    fold, late = look.journal.fold, look.limits.message_late
    if fold is None:
        return
    count, since = unsettled_since(fold, look.now - late)
    if since is not None:
        said = (
            f"{count:,} messages have not settled, the oldest since {time_of(since)}, longer than "
            f"the {minutes_of(late)} of PIPELINE_MESSAGE_LATE_MINUTES."
        )
        back = all_held_back(look.topology, look.journal)
        said += "".join(f" {each['says'].rstrip('.')}." for each in back)
        yield Finding("late-messages", "", said, grade=grade_of(count))


def late_publishes(look: Look) -> Findings:
    """Folds that are not published, with the error of the newest try."""
    fold = look.journal.fold
    if fold is None:
        return
    upto = fold.number
    for name, publication in look.topology.publications.items():
        try:
            number = published_upto(look.topology, look.journal, publication) + 1
        except AckerError:
            continue  # which is told by itself
        noted = unpublished_since(look.journal, name, number)
        if number <= fold.number and noted is not None:
            said = f"Fold {number} does not go into {publication.to} since {noted.told}"
            yield Finding("late-publishes", name, said, grade=f"{number}: {noted.reason}")
        upto = min(upto, number - 1)
    if upto < fold.number:
        since = first_folded_at(fold.ledger, upto)
        late = look.limits.publish_late
        for said in _late(look, f"Fold {upto + 1} is not published", since, late):
            yield Finding("late-publishes", "", said)


def backlog(look: Look) -> Findings:
    """Many messages that are in flight or wait for a retry."""
    fold = look.journal.fold
    counts = live_counts(fold, look.now) if fold else None
    backlog = counts.pending + counts.retrying if counts else 0
    if backlog > look.limits.backlog:
        said = (
            f"{backlog:,} messages are in flight or waiting for a retry, more than the "
            f"{look.limits.backlog:,} of PIPELINE_BACKLOG_ALLOWED."
        )
        yield Finding("backlog", "", said, grade=grade_of(backlog))


def growing_backlog(look: Look) -> Findings:
    """A backlog that is allowed, has grown in both halves of the last hour, and will soon be too long."""
    ahead, allowed = look.limits.backlog_ahead, look.limits.backlog
    counts = [
        live_count(look.journal.require(LEDGER), moment)
        for moment in (look.now - _TREND, look.now - _TREND / 2, None)
        if ahead
    ]
    match counts:
        case [int(before), int(between), int(now)] if before < between < now <= allowed:
            if now + (now - before) * (ahead / _TREND) > allowed:
                said = (
                    f"{now:,} messages are in flight or waiting for a retry, an hour ago {before:,} were. At "
                    f"this rate they are more than the {allowed:,} of PIPELINE_BACKLOG_ALLOWED within the "
                    f"{ahead // _TREND:,} hours of PIPELINE_BACKLOG_AHEAD_HOURS."
                )
                yield Finding("growing-backlog", "", said)


def full_spouts(look: Look) -> Findings:
    """Spouts that are held back by `max_pending`."""
    most = look.topology.max_pending
    for spout in look.topology.spouts:
        if most is not None and (number := in_flight(look.journal, spout.name)) >= most:
            said = (
                f"{spout.name} reads nothing new: {number:,} of its messages are in flight, and max_pending "
                f"allows {most:,}."
            )
            yield Finding("full-spouts", spout.name, said)


def late_upkeep(look: Look) -> Findings:
    """Steps of the upkeep whose newest end is too long ago.

    For a step that has never ended the time of the store's first batch counts.
    """
    ends, late = newest_upkeep(look.journal), look.limits.upkeep_late
    since = {
        step: ends[step].ended_at if step in ends else look.journal.first_planned_at or look.now
        for step in late
    }
    steps = [step for step in late if look.now - since[step] > late[step]]
    if "backup" in steps:
        said = f"The store has no backup since {time_of(since['backup'])}: call `acker backup`."
        yield Finding("late-upkeep", "backup", said)
    if own := [step for step in steps if step != "backup"]:
        said = (
            f"{_steps(own)} not ended since {time_of(min(since[step] for step in own))}, "
            f"longer than the {minutes_of(late[own[0]])} that may take: look at the DAG "
            f"{look.topology.name}.maintain."
        )
        yield Finding("late-upkeep", "", said, grade=", ".join(own))


def _steps(steps: list[str]) -> str:
    """The beginning of a sentence for people: the names of steps, and a verb.

    An example is "The trim and compact have".
    """
    if len(steps) == 1:
        return f"The {steps[0]} has"
    return f"The {', '.join(steps[:-1])} and {steps[-1]} have"


def failed_upkeep(look: Look) -> Findings:
    """Steps of the upkeep that had a fault when they last ended."""
    for end in newest_upkeep(look.journal).values():
        if end.fault is not None:
            said = f"The {end.step} of {time_of(end.ended_at)} failed: {end.fault.rstrip('.')}."
            yield Finding("failed-upkeep", end.step, said, grade=end.fault)


LOOKS: tuple[Callable[[Look], Findings], ...] = (
    held,
    unapproved,
    late_batches,
    late_folds,
    late_retries,
    given_up,
    late_messages,
    late_publishes,
    backlog,
    growing_backlog,
    full_spouts,
    late_upkeep,
    failed_upkeep,
)

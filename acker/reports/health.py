"""What an operator should look at, by how things stand and not by what has just happened.

Each look finds again what was there at the last one, so that no alert is missed by a process that died, or by
a person who was away. Each sentence names its part of the page that says what to do. Without Spark.
"""

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from pathlib import Path

import polars as pl

from acker.batches.holds import newest_hold, unpublished_since
from acker.core.delta import last_number, query
from acker.core.errors import AckerError
from acker.core.events import State
from acker.core.ledger import current_rows, live_counts, newest_of, unfolded
from acker.core.live import live_count
from acker.core.names import called
from acker.core.parquet import collect
from acker.core.schemas import ACKNOWLEDGEMENTS, EVENTS, LEDGER, is_far
from acker.core.store import Store
from acker.journal.journal import Journal
from acker.operations.acknowledge import APP
from acker.operations.cycle import in_flight
from acker.operations.publish import published_upto
from acker.operations.standing import announce
from acker.reports.sources import SourceBacklog, amounts, source_backlogs
from acker.targets.standing import StandingError, standing_of
from acker.topology.topology import Topology

PAGE = "docs/how-to/alerts.md"
_TREND = timedelta(hours=1)


@dataclass(frozen=True)
class Limits:
    """From where on something is a warning.

    Args:
        dead_letters: how many may stand.
        backlog: how many messages may be in flight or wait for a retry.
        backlog_ahead: for how long ahead the backlog is reckoned by its trend; zero: not at all.
        acker_late: how old what no fold has seen may be.
        batch_late: how old a batch that is not logged may be.
        publish_late: how old a fold that is not published may be.
        message_late: how old a message that has not settled may be.
        source_late: how old what is unread may be; zero: any.
        spout_stalled: for how long a spout may read nothing although there is something; zero: for ever.
        disk_free_percent: how much of a disk has to be free.
    """

    dead_letters: int
    backlog: int
    backlog_ahead: timedelta
    acker_late: timedelta
    batch_late: timedelta
    publish_late: timedelta
    message_late: timedelta
    source_late: timedelta
    spout_stalled: timedelta
    disk_free_percent: int


@dataclass(frozen=True)
class _Look:
    topology: Topology
    journal: Journal
    limits: Limits
    now: datetime

    @cached_property
    def sources(self) -> list[SourceBacklog]:
        return source_backlogs(self.topology, self.journal)


def health_warnings(topology: Topology, store: Store, limits: Limits, now: datetime) -> list[str]:
    """What is late, what has become too much, and what stands since it was last acknowledged.

    Raises:
        StoreError: the store cannot be read.
    """
    journal = Journal(store, topology.roles)
    looks: list[Callable[[_Look], Iterator[str]]] = [_full_disks, _late_sources, _stalled_spouts]
    looks += [_changed_sources, _empty_sources]
    if journal.open(EVENTS) is not None and journal.open(LEDGER) is not None:  # else nothing has run yet
        looks += [_held, _late_batches, _late_folds, _given_up, _late_messages, _publishers, _late_publishes]
        looks += [_backlog, _growing_backlog, _full_spouts]
    else:
        looks += [_store]
    look = _Look(topology, journal, limits, now)
    return [
        f"{said} See {PAGE}#{each.__name__.strip('_').replace('_', '-')}."
        for each in looks
        for said in each(look)
    ]


def _held(look: _Look) -> Iterator[str]:
    for bolt in look.topology.bolts:
        hold = newest_hold(look.journal, bolt.name)
        if hold is not None:
            yield (
                f"{hold}. Mend it, or fail its messages with "
                f"`acker give-up {called(look.topology.name)} {bolt.name}`."
            )


def _late_batches(look: _Look) -> Iterator[str]:
    for component in look.topology.order():  # what a spout that is gone has planned waits for its return
        name = component.name
        batch = look.journal.unfinished(name)
        if batch is not None and newest_hold(look.journal, name) is None:
            late = look.limits.batch_late
            yield from _late(look, f"Batch {batch.number} of {name} is not done", batch.planned_at, late)


def _late(look: _Look, what: str, since: datetime, late: timedelta) -> Iterator[str]:
    """What is not done for longer than it may take."""
    if look.now - since > late:
        own, pause = look.limits.batch_late, late - look.limits.batch_late
        beyond = f" and of {_minutes(pause)} between two runs" if pause else ""
        limit = f"the {_minutes(own)} of PIPELINE_BATCH_LATE_MINUTES{beyond}"
        yield f"{what} since {_time(since)}, longer than {limit}."


def _late_folds(look: _Look) -> Iterator[str]:
    journal, late = look.journal, look.limits.acker_late
    new = unfolded(journal.fold, {name: journal.logged(name) for name in journal.components()})
    (row,) = query(
        f"SELECT min(logged_at) AS since FROM events WHERE kind = 'batch' AND ({new})",
        events=journal.require(EVENTS),
    )
    if row["since"] is not None and look.now - row["since"] > late:
        yield (
            f"Events are logged and not folded since {_time(row['since'])}, longer than the {_minutes(late)} "
            f"of PIPELINE_ACKER_LATE_MINUTES: look at the DAG {look.topology.name}.acker."
        )


def _given_up(look: _Look) -> Iterator[str]:
    fold = look.journal.fold
    if fold is None:
        return
    known = last_number(look.journal.open(ACKNOWLEDGEMENTS), APP)
    given_up = pl.col("state").is_in([State.DEAD_LETTER, State.LOST])
    rows = collect(current_rows(fold).filter(given_up, pl.col("fold") > known))
    if rows.is_empty():
        return  # without a look at which messages were replayed since
    found = dict(collect(newest_of(fold, rows.lazy()).group_by("state").len()).iter_rows())
    dead, lost = found.get(State.DEAD_LETTER, 0), found.get(State.LOST, 0)
    if dead > look.limits.dead_letters or lost:
        counts = [f"{n:,} {what}" for n, what in ((dead, "dead letters"), (lost, "lost")) if n]
        name = look.topology.name
        yield (
            f"{' and '.join(counts)} stand since fold {known}: `acker failures {called(name)}` says why, "
            f"{name}.replay emits them again, `acker acknowledge {called(name)}` ends this warning."
        )


def _late_messages(look: _Look) -> Iterator[str]:
    fold, late = look.journal.fold, look.limits.message_late
    if fold is None:
        return
    (row,) = query(
        "SELECT count(*) AS n, min(emitted_at) AS since FROM ledger "
        f"WHERE live_in = {fold.number} AND state IN ('pending', 'retrying') "
        f"AND emitted_at < TIMESTAMP '{(look.now - late).isoformat()}'",
        ledger=fold.ledger,
    )
    if row["n"]:
        yield (
            f"{row['n']:,} messages have not settled, the oldest since {_time(row['since'])}, longer than "
            f"the {_minutes(late)} of PIPELINE_MESSAGE_LATE_MINUTES."
        )


def _late_publishes(look: _Look) -> Iterator[str]:
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
            yield f"Fold {number} does not go into {publication.to} since {noted.told}"
        upto = min(upto, number - 1)
    if upto < fold.number:
        (row,) = query(
            f"SELECT min(folded_at) AS since FROM ledger WHERE root_id IS NULL AND fold > {upto}",
            ledger=fold.ledger,
        )
        yield from _late(look, f"Fold {upto + 1} is not published", row["since"], look.limits.publish_late)


def _publishers(look: _Look) -> Iterator[str]:
    """Targets that do not hold what was published there, hold what another store has published, or do not
    tell.
    """
    for name, publication in look.topology.publications.items():
        try:
            if look.journal.fold is not None:
                standing_of(look.journal, publication.target.pinned(), name)
        except AckerError as fault:
            yield str(fault)


def _store(look: _Look) -> Iterator[str]:
    """A store that is gone, where something was published from it."""
    store = look.journal.store
    try:
        announce(look.topology, store)
    except StandingError as fault:
        where = store.path("").rstrip("/")
        yield f"There is no store at {where}: it is gone, or this is another path. {fault}"


def _backlog(look: _Look) -> Iterator[str]:
    fold = look.journal.fold
    counts = live_counts(fold, look.now) if fold else None
    backlog = counts.pending + counts.retrying if counts else 0
    if backlog > look.limits.backlog:
        yield (
            f"{backlog:,} messages are in flight or waiting for a retry, more than the "
            f"{look.limits.backlog:,} of PIPELINE_BACKLOG_ALLOWED."
        )


def _growing_backlog(look: _Look) -> Iterator[str]:
    """A backlog that is allowed, has grown for an hour, in both halves of it, and will be too long."""
    ahead, allowed = look.limits.backlog_ahead, look.limits.backlog
    counts = [
        live_count(look.journal.require(LEDGER), moment)
        for moment in (look.now - _TREND, look.now - _TREND / 2, None)
        if ahead
    ]
    match counts:
        case [int(before), int(between), int(now)] if before < between < now <= allowed:
            if now + (now - before) * (ahead / _TREND) > allowed:
                yield (
                    f"{now:,} messages are in flight or waiting for a retry, an hour ago {before:,} were. At "
                    f"this rate they are more than the {allowed:,} of PIPELINE_BACKLOG_ALLOWED within the "
                    f"{ahead // _TREND:,} hours of PIPELINE_BACKLOG_AHEAD_HOURS."
                )


def _full_spouts(look: _Look) -> Iterator[str]:
    most = look.topology.max_pending
    for spout in look.topology.spouts:
        if most is not None and (number := in_flight(look.journal, spout.name)) >= most:
            yield (
                f"{spout.name} reads nothing new: {number:,} of its messages are in flight, and max_pending "
                f"allows {most:,}."
            )


def _late_sources(look: _Look) -> Iterator[str]:
    late = look.limits.source_late
    for source in look.sources if late else ():
        if source.unread and source.oldest and look.now - source.oldest > late:
            yield (
                f"{source.spout} has {amounts(source.unread)} unread, the oldest of {_time(source.oldest)}, "
                f"longer than the {_minutes(late)} of PIPELINE_SOURCE_LATE_MINUTES: look at the DAG "
                f"{look.topology.name}.run."
            )


def _changed_sources(look: _Look) -> Iterator[str]:
    for source in look.sources:
        if source.changed is not None:
            yield (
                f"{source.spout} has what changed since it was read, and is not read again: {source.changed}."
            )


def _empty_sources(look: _Look) -> Iterator[str]:
    for source in look.sources:
        if source.is_empty and source.gone is not None:
            yield f"The source of {source.spout} is empty, and was read: {source.gone}."


def _stalled_spouts(look: _Look) -> Iterator[str]:
    late = look.limits.spout_stalled
    for source in look.sources if late else ():
        if source.unread and source.oldest and look.journal.unfinished(source.spout) is None:
            newest = look.journal.newest_of(source.spout, "next")
            since = max(source.oldest, newest.planned_at) if newest else source.oldest
            if look.now - since > late:
                yield (
                    f"{source.spout} has {amounts(source.unread)} to read and reads nothing since "
                    f"{_time(since)}, longer than the {_minutes(late)} of PIPELINE_BATCH_LATE_MINUTES: look "
                    f"at the DAG {look.topology.name}.run."
                )


def _full_disks(look: _Look) -> Iterator[str]:
    uri = look.journal.store.uri
    folder = Path(uri.removeprefix("file://"))
    if is_far(uri) or not folder.exists():
        return
    found = shutil.disk_usage(folder)
    percent = 100 * found.free // (found.used + found.free)  # the rest is kept for root
    if percent < look.limits.disk_free_percent:
        yield (
            f"The disk of {folder} has {percent} % free, less than the {look.limits.disk_free_percent} of "
            "PIPELINE_DISK_FREE_PERCENT."
        )


def _time(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M} UTC"


def _minutes(late: timedelta) -> str:
    return f"{late // timedelta(minutes=1):,} minutes"

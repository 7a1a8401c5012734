"""The work of a scheduler's tasks: one step of a topology each.

`open_run` opens the topology's run, with a Spark session that is given or made. The steps take the run.

Each step resumes the work that an earlier call left, so a task may be retried, cleared, killed or run twice.
A step returns counts, which are empty where there was nothing to do.
"""

import logging
import os
import tempfile
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from functools import cache, partial
from pathlib import Path
from typing import Any
from uuid import uuid4

from pyspark.sql import SparkSession
from structlog.contextvars import bound_contextvars

from acker.batches.batch import give_up
from acker.batches.holds import check_not_held, newest_hold, reason_of
from acker.batches.run import Run, Step, describe, utc_now
from acker.components.base import Component
from acker.core.errors import AckerError, BatchHeld, SettingsError, StoreError
from acker.core.snapshot.journal import Journal
from acker.core.snapshot.ledger import fold_counts, live_counts
from acker.core.snapshot.verdict import Audit
from acker.core.store.schemas import BATCHES, EVENTS, LEDGER
from acker.core.store.store import Store
from acker.kafka.connections import look_up_with
from acker.operations import cycle, replay
from acker.operations import fold as acking
from acker.operations.approvals import Told, approval_status, check_approved, record_asked, record_emitted
from acker.operations.cycle import room_for_new, run_spout
from acker.operations.maintenance import compact as maintain
from acker.operations.maintenance.forget import expire_reasons
from acker.operations.maintenance.trim import trim_events, trim_streams
from acker.operations.maintenance.upkeep import noted
from acker.operations.publish import publish_stream
from acker.operations.selection.fields import Fields, text_in
from acker.operations.selection.matching import Listed
from acker.operations.selection.readable import Gone, gone_of
from acker.operations.selection.requests import read_request
from acker.operations.selection.selection import Selection
from acker.operations.standing import announce
from acker.reports import health
from acker.reports.audit import audit_report
from acker.reports.failures import failed_in_batches
from acker.reports.looks import EVERYTHING, Finding, Limits, Look
from acker.reports.waiting import waits_for_acker, waits_for_components
from acker.runtime import opening
from acker.runtime.known_stores import known_store, place_of
from acker.runtime.printed import PrintedLines
from acker.runtime.registry import load_topology
from acker.runtime.settings import Settings
from acker.topology.schedule import WATCH, Schedule, longest_pause
from acker.topology.topology import Topology

Counts = dict[str, int]

log = logging.getLogger(__name__)

_LISTED = 20  # findings of a kind


def open_run(topology: str, connect: Callable[[], SparkSession] | None = None) -> Run:
    """A run of a registered topology against the deployment's store, with its steps in the task's log.

    Args:
        topology: the topology's name.
        connect: returns the Spark session when the step first needs it; None: a session of the deployment's.

    Raises:
        StoreError: another deployment works on the store, or there is no store and another one has published
            to the topology's targets.
    """
    settings = Settings.from_env()
    found, store = _opened(topology, settings)

    def connected() -> SparkSession:
        # Spark's client imports pandas and gRPC, which takes longer than a fold, and a fold needs neither.
        from acker.runtime.server import sessions

        return sessions.connect(settings)

    run_id = uuid4().hex
    on_step = partial(_log_step, PrintedLines(settings, found.name), run_id)
    warn = partial(log.warning, "%s")
    return opening.open_run(found, store, settings, cache(connect or connected), on_step, warn, run_id)


def _opened(topology: str, settings: Settings) -> tuple[Topology, Store]:
    os.umask(settings.umask)
    look_up_with(_kafka_connection)
    found = load_topology(topology, settings)
    return found, Store(settings.store, found.name)


def _kafka_connection(name: str) -> dict[str, Any] | None:
    """The extra fields of a connection of Airflow's; None where there is no such connection."""
    from airflow.sdk import Connection
    from airflow.sdk.exceptions import AirflowNotFoundException

    try:
        return dict(Connection.get(name).extra_dejson)
    except AirflowNotFoundException:
        return None


def _log_step(printed: PrintedLines, run_id: str, step: Step) -> None:
    """Log the lines that bolts have printed, and then a step, in words and as fields of the log line."""
    for line in printed.new():
        log.info("printed: %s", line)
    topology = printed.topology
    number = "fold" if step.component == "acker" or step.name == "published" else "batch"
    fields = {"topology": topology, "run": run_id, "component": step.component, number: step.number}
    with bound_contextvars(**fields, step=step.name):  # as Airflow's own lines have theirs
        log.info(describe(step))


def read_source(run: Run, spout: str) -> Counts:
    """Emit the spout's next messages. `held_back` is among the counts where `max_pending` stops the spout."""
    component = next(each for each in run.topology.spouts if each.name == spout)
    done = run_spout(run, component, replays=False)
    room = room_for_new(run.topology, run.snapshot(), spout)
    if room <= 0:
        log.warning(
            "%s is held back: max_pending of %s, %s, is used up; the fold makes room as messages settle.",
            spout,
            run.topology.name,
            run.topology.max_pending,
        )
        return {"batches": done.batches, "messages": done.messages, "held_back": 1}
    return {"batches": done.batches, "messages": done.messages} if done.batches else {}


def run_bolt(run: Run, bolt: str, waits: bool = False) -> dict[str, Any]:
    """Run a bolt over the batches that its inputs have logged.

    A batch that raises through no fault of a row is held. After `PIPELINE_GIVE_UP_AFTER_TRIES` tries, where
    that is set, the batch is given up: its messages fail, and the bolt goes on after it.

    Args:
        bolt: the bolt's name.
        waits: whether a batch that is held is left alone until its next try is due.

    Returns:
        `batches`, the number of batches. Where messages failed in them also `failed`, the number of these
        messages, and `why`, the commonest reasons, each with its number of messages.

    Raises:
        BatchHeld: the bolt waits.
    """
    component = run.topology.components[bolt]
    journal = run.snapshot()
    if waits:
        check_not_held(journal, bolt, run.clock())
    try:
        batches = cycle.run_bolt(run, component)
    except Exception as error:
        _give_up_if_asked(run, component, error)
        raise
    if not batches:
        return {}
    failed = failed_in_batches(run.snapshot(), bolt, after=journal.logged(bolt))
    if not failed.count:
        return {"batches": batches}
    log.warning("%s failed %s messages: %s", bolt, f"{failed.count:,}", "; ".join(map(str, failed.commonest)))
    return {
        "batches": batches,
        "failed": failed.count,
        "why": {failure.reason: failure.count for failure in failed.commonest},
    }


def run_components(run: Run, waits: bool = False) -> dict[str, Any]:
    """Run every component.

    Where a component raises, the others go on, and the first error is raised at the end. A bolt that waits
    stops nothing.

    Args:
        waits: see `run_bolt`.

    Returns:
        Component -> the counts of `read_source` or `run_bolt`, for each component with something to do.
    """
    errors: list[Exception] = []
    done: dict[str, Any] = {}
    for component in run.topology.order():
        with cycle.collecting_errors(errors):
            try:
                is_bolt = bool(component.inputs)
                counts = run_bolt(run, component.name, waits) if is_bolt else read_source(run, component.name)
            except BatchHeld as held:
                log.info("%s", held)
            else:
                done |= {component.name: counts} if counts else {}
    if errors:
        raise errors[0]
    return done


def _give_up_if_asked(run: Run, bolt: Component, error: Exception) -> None:
    hold = newest_hold(run.snapshot(), bolt.name)
    limit = Settings.from_env().give_up_after_tries
    if hold is not None and limit and hold.tries >= limit:
        give_up(run, bolt, f"given up after {hold.tries} tries: {reason_of(error)}")
        log.error("Batch %s of %s is given up; its messages are failed.", hold.batch, bolt.name)


def fold(run: Run) -> Counts:
    """Run the acker.

    The counts are the number of the fold, its rows by state, and `due`, the messages to replay now. They are
    empty where nothing is live and nothing was logged.
    """
    done = acking.fold(run)
    counts = fold_counts(done)
    if not any(counts.values()):
        return {}
    return {"fold": done.number, **counts, "due": live_counts(done, run.clock()).due}


def publish(run: Run, component: str) -> Counts:
    """Bring the table that a component publishes up to the newest fold."""
    commits = publish_stream(run, run.topology.publications[component])
    return {"commits": commits} if commits else {}


def replay_due(run: Run) -> Counts:
    """Emit again the messages whose next attempt is due."""
    messages = replay.replay_due(run)
    return {"messages": messages} if messages else {}


def count_requested(topology: str, form: Fields) -> Counts:
    """Count the messages that a replay by hand would emit. Nothing is recorded; see `request_by_hand`."""
    found, store = _opened(topology, Settings.from_env())
    counted = replay.dry_run(found, store, _selection(form, found), utc_now())
    _log_listed(counted.messages)
    counts = {name: count for name, count in counted.counts.items() if name != "replayed"}
    return counts | _told(counted.gone)


def request_by_hand(run: Run, form: Fields, requested_by: str, request_id: str) -> Counts:
    """Record the messages that a replay by hand is to emit, and log the first of them.

    It needs no Spark. The same request, made again, stays as it was recorded the first time.

    Raises:
        SettingsError: the form cannot be fulfilled, or the request was made before with another form.
        TopologyError: acked messages are chosen and a published aggregate cannot take them back.
    """
    selection, why = _selection(form, run.topology), text_in(form, "why") or ""
    found, request = replay.request_by_hand(run, selection, why, requested_by, request_id)
    _log_listed(found.listed)
    unseen = {"unseen": found.unseen} if found.unseen else {}
    gone = gone_of(run.topology, run.snapshot(), found.emissions)
    record_asked(run, request, Told.of(found, gone))
    return {"matched": request.matched, "in_flight": found.in_flight, **unseen, **_told(gone)}


def must_be_approved(run: Run, request_id: str, limit: int) -> bool:
    """Whether a request needs an approval that it does not have.

    Other requests that count together with it are logged.

    Args:
        limit: the most messages that one person may have emitted without an approval.
    """
    standing = approval_status(run.store, read_request(run.store, request_id), run.clock())
    if standing.others:
        log.info("%s", standing.together)
    return standing.must_be_approved(limit)


def _told(gone: Gone) -> Counts:
    """Log the messages that cannot be read any more, and return their number, if there are any."""
    for said in gone.sentences():
        log.warning("%s", said)
    return {"gone": gone.count} if gone.count else {}


def _selection(form: Fields, topology: Topology) -> Selection:
    selection = Selection.parse(form, topology)
    if selection is None:
        raise SettingsError(f"Choose states. What is due is emitted by the DAG {topology.name}.retry.")
    return selection


def _log_listed(messages: Iterable[Listed]) -> None:
    for each in messages:
        log.info("%s, %s: %s", each.message, each.state, each.reason or "acked")


def emit_requested(run: Run, request_id: str, most: int | None = None) -> Counts:
    """Emit the messages that a request has recorded and that have not been emitted since.

    Args:
        most: how many messages one person may have emitted without an approval; None: any number.

    Raises:
        SettingsError: the request needs an approval, and the store's own record has none.
        StoreError: there is no such request.
    """
    request = read_request(run.store, request_id)
    if most is not None:
        check_approved(run, request, most)
    messages = replay.emit_requested(run, request)
    record_emitted(run, request)
    return {"messages": messages} if messages else {}


def waits_for(topology: str, kind: str) -> list[str]:
    """Sentences on the work that waits for a DAG, `run` or `acker`, made without Spark."""
    found, store = _opened(topology, Settings.from_env())
    journal = Journal(store, found.roles)
    if kind == "acker":
        return waits_for_acker(found, journal, utc_now())
    return waits_for_components(found, journal, utc_now())


def findings(topology: str, places: Sequence[tuple[str, Path]] = ()) -> list[Finding]:
    """Findings for an operator: work that is late, too much, broken, or given up. They need no Spark.

    Args:
        topology: the topology's name. A topology that does not import is a finding.
        places: further folders whose disks are looked at, each after a name for its contents.
    """
    settings = Settings.from_env()
    try:
        found, store = _opened(topology, settings)
    except AckerError as fault:
        return [Finding("broken", "", str(fault), hides=EVERYTHING)]
    limits = _limits(settings, found.schedule or settings.run_schedule)
    own = [("PIPELINE_HOME", settings.home), ("temporary files", Path(tempfile.gettempdir()))]
    look = Look(found, store, limits, utc_now(), [*own, *places], known_store(settings, topology))
    return health.findings(look)


def _limits(settings: Settings, schedule: Schedule) -> Limits:
    def minutes(number: int) -> timedelta:
        return timedelta(minutes=number)

    return Limits(
        dead_letters=settings.dead_letters_allowed,
        backlog=settings.backlog_allowed,
        backlog_ahead=timedelta(hours=settings.backlog_ahead_hours),
        acker_late=minutes(settings.acker_late_minutes),
        batch_late=minutes(settings.batch_late_minutes),
        publish_late=minutes(settings.batch_late_minutes) + settings.longest_pause(schedule),
        message_late=minutes(settings.message_late_minutes),
        retry_late=minutes(settings.retry_late_minutes) + longest_pause(settings.acker_schedule),
        source_late=minutes(settings.source_late_minutes),
        upkeep_late=settings.upkeep_late,
        # What a schedule of its own leaves unread until the next run is not late.
        spout_stalled=minutes(settings.batch_late_minutes if schedule == WATCH else 0),
        disk_free_percent=settings.disk_free_percent,
    )


def audit(topology: str) -> list[str]:
    """The counts of an audit's findings, in words; none where the audit passes. The log lists some findings.

    It needs no Spark. Before anything has run there is nothing to judge, and perhaps no table.

    Raises:
        StoreError: there is no store, and there was one.
    """
    settings = Settings.from_env()
    found, store = _opened(topology, settings)
    tables = [store.open(name) for name in (BATCHES, EVENTS, LEDGER)]
    if all(table is None for table in tables):
        announce(found, store)
        was = known_store(settings, found.name)
        if was is not None:
            raise StoreError(
                f"There is no store at {place_of(store)}. When something last ran it was at {was}."
            )
        return []
    if all(table is None or table.version() == 0 for table in tables):
        return []
    before = settings.overdue_before(found.schedule, utc_now())
    with noted(store, "audit") as faults:
        wrong = _wrong(audit_report(found, store, overdue_before=before))
        faults += wrong
    return wrong


def _wrong(result: Audit) -> list[str]:
    """Log the findings of an audit, and return their counts, in words."""
    for name, findings in result.findings.items():
        for finding in findings[:_LISTED]:
            log.error("%s: %s %s", name, finding.message, finding.why)
    for name, late in result.overdue.items():
        log.error("%s: %s", name, late)
    for name, each in result.streams.items():
        for why in each.why:
            log.warning("%s: not compared by what its rows say: %s", name, why)
    counts = {"lost": result.lost, "unexpected": result.unexpected, "duplicated": result.duplicated}
    said = [f"{number:,} {name}" for name, number in counts.items() if number]
    return said + [f"{name} has {late.messages:,} unpublished" for name, late in result.overdue.items()]


def trim(run: Run) -> Counts:
    """Delete batches of streams, and rows of events, that nobody needs any more.

    The counts are the batches, by component, and the rows of events. Reasons have a retention of their own.
    Those that expire are counted as `reasons`.
    """
    settings = Settings.from_env()
    with noted(run.store, "trim"):
        streams = trim_streams(run, timedelta(hours=settings.stream_retention_hours))
        done = streams | trim_events(run, timedelta(hours=settings.event_retention_hours))
        days = settings.reason_retention_days
        expired = sum(expire_reasons(run, timedelta(days=days)).values()) if days else 0
    return done | ({"reasons": expired} if expired else {})


def compact(run: Run) -> Counts:
    """Rewrite small files. The counts say by how many each table has fewer files."""
    with noted(run.store, "compact"):
        return maintain.compact(run)


def vacuum(run: Run) -> Counts:
    """Delete files that are past the retention. The count is the number of tables."""
    with noted(run.store, "vacuum"):
        return {"tables": len(maintain.vacuum(run, Settings.from_env().file_retention_hours))}

"""What a scheduler's tasks do: one step of a topology each, on a Spark session that they are given.

Each step resumes what an earlier call left, so a task may be retried, cleared, killed or run twice. A
step returns counts, which are empty where there was nothing to do.
"""

import logging
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.sql import SparkSession

from acker.batches.batch import finish, give_up
from acker.batches.progress import Step, describe
from acker.batches.run import Run, utc_now
from acker.core.delta import Store
from acker.core.errors import SettingsError
from acker.core.events import State
from acker.core.ledger import fold_counts, live_counts, newest_fold
from acker.operations import compact as maintain
from acker.operations import fold as acking
from acker.operations import replay
from acker.operations.cycle import room_for_new, run_bolt, run_spout
from acker.operations.publish import publish_table
from acker.operations.selection import SELECTABLE, Selection, parse_position, refuse_irreversible, select
from acker.operations.trim import trim_events, trim_streams
from acker.runtime.registry import load_topology
from acker.runtime.settings import Settings

Counts = dict[str, int]
Form = Mapping[str, Any]  # what a person filled into the replay's form

_KINDS = {str: "a text", int: "a whole number", list: "a list of texts"}
_STATES = {state.value for state in State}

log = logging.getLogger(__name__)


def open_run(topology: str, spark: SparkSession | None = None) -> Run:
    """A run of a registered topology against the deployment's store, with its steps in the task's log.

    Args:
        topology: its name.
        spark: the session; None for a step that needs none.
    """
    settings = Settings.from_env()
    found = load_topology(topology, settings)
    store = Store(settings.store, found.name)
    store.create()

    def connected() -> SparkSession:
        # Spark's client imports pandas and gRPC, which takes longer than a fold, and a fold needs neither.
        from acker.runtime.sessions import connect, set_up

        return set_up(spark) if spark else connect(settings)

    return Run(found, store, connected, on_step=_log_step)


def _log_step(step: Step) -> None:
    log.info(describe(step))


def read_source(run: Run, spout: str) -> Counts:
    """Emit the spout's next messages. `held_back` is among the counts where `max_pending` stops it."""
    component = run.topology.components[spout]
    batches, messages = run_spout(run, component, replays=False)
    room = room_for_new(run, spout)
    if room <= 0:
        log.warning(
            "%s is held back: max_pending of %s, %s, is used up; the fold makes room as messages settle.",
            spout,
            run.topology.name,
            run.topology.max_pending,
        )
        return {"batches": batches, "messages": messages, "held_back": 1}
    return {"batches": batches, "messages": messages} if batches else {}


def take_inputs(run: Run, bolt: str, is_last_try: bool) -> Counts:
    """Run a bolt over what its inputs have logged.

    Args:
        bolt: its name.
        is_last_try: fail the messages of a batch that raises, so that the batches after it get their turn.
            The error is raised all the same.
    """
    component = run.topology.components[bolt]
    try:
        batches = run_bolt(run, component)
    except Exception as error:
        if is_last_try:
            batch = give_up(run, component, f"given up: {_first_line(error)}")
            if batch is not None:
                log.error("Batch %s of %s is given up; its messages are failed.", batch.number, bolt)
        raise
    return {"batches": batches} if batches else {}


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def fold(run: Run) -> Counts:
    """Run the acker. The counts are the fold's rows by state, and `due`, the messages to replay now.

    They are empty where nothing is live and nothing was logged.
    """
    done = acking.fold(run)
    counts = fold_counts(run.store, done)
    if not any(counts.values()):
        return {}
    return {"fold": done.number, **counts, "due": live_counts(run.store, done, run.clock()).due}


def publish(run: Run, component: str) -> Counts:
    """Bring the table that a component publishes up to the newest fold."""
    commits = publish_table(run, run.topology.publications[component])
    return {"commits": commits} if commits else {}


def replay_due(run: Run) -> Counts:
    """Emit the messages again whose time has come."""
    messages = 0
    for spout in run.topology.spouts:
        replay.finish_unfinished(run, spout)
        batch = replay.plan_due(run, spout)
        if batch is not None:
            finish(run, spout, batch)
            messages += replay.size(batch)
    return {"messages": messages} if messages else {}


def match(topology: str, form: Form) -> Counts:
    """What a manual replay would emit. Without Spark.

    Raises:
        SettingsError: the form asks for what cannot be.
        TopologyError: acked messages are chosen and a published aggregate cannot take them back.
    """
    settings = Settings.from_env()
    found = load_topology(topology, settings)
    matched = select(found, Store(settings.store, found.name), selection_of(form))
    refuse_irreversible(found, matched)
    return {"matched": matched.count, "in_flight": matched.in_flight}


def replay_by_hand(run: Run, form: Form, requested_by: str, request_id: str) -> Counts:
    """Emit the messages that a form selects; the same request again emits nothing more."""
    selection = selection_of(form)
    _, batches = replay.plan_by_hand(run, selection, _field(form, "why", str) or "", requested_by, request_id)
    for batch in batches:
        finish(run, run.topology.components[batch.component], batch)
    messages = sum(replay.size(batch) for batch in batches)
    return {"messages": messages} if messages else {}


def selection_of(form: Form) -> Selection:
    """The selection that a form describes.

    Raises:
        SettingsError: a field is of another type than the form's, a position is not PARTITION:OFFSET, a time
            is none, or positions come without a spout.
    """
    positions = []
    for text in _texts(form, "positions"):
        position = parse_position(text)
        if position is None:
            raise SettingsError(f"{text!r:.200} is not a position; write PARTITION:OFFSET.")
        positions.append(position)
    spout = _field(form, "spout", str)
    if positions and not spout:
        raise SettingsError("Positions belong to a spout: choose it as well.")
    return Selection(
        states=_states(form),
        spout=spout,
        positions=tuple(positions),
        since=_time(form, "since"),
        until=_time(form, "until"),
        reason=_field(form, "reason", str),
        limit=_field(form, "limit", int),
    )


def _field(form: Form, name: str, kind: type) -> Any:
    """A field of the form, None where it is empty or missing."""
    value = form.get(name)
    if value is not None and type(value) is not kind:
        raise SettingsError(f"{name} is {value!r:.200}; fill in {_KINDS[kind]}.")
    return value


def _texts(form: Form, name: str) -> list[str]:
    texts = _field(form, name, list) or []
    return [_field({name: text}, name, str) or "" for text in texts]


def _states(form: Form) -> tuple[State, ...]:
    states = _texts(form, "states")
    unknown = [state for state in states if state not in _STATES]
    if unknown:
        raise SettingsError(f"{unknown[0]!r:.200} is no state; choose among {', '.join(SELECTABLE)}.")
    return tuple(State(state) for state in states)


def _time(form: Form, name: str) -> datetime | None:
    text = _field(form, name, str)
    if text is None:
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError as error:
        raise SettingsError(
            f"{name} is {text!r:.200}, which is no time; write one such as 2026-01-31T12:00:00Z."
        ) from error
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def complaints(topology: str) -> list[str]:
    """What an operator should look at: an acker that is late, a backlog that is too long. Without Spark."""
    settings = Settings.from_env()
    found = load_topology(topology, settings)
    store = Store(settings.store, found.name)
    newest = newest_fold(store)
    if newest is None:
        return []  # the very first run makes it meanwhile
    said: list[str] = []
    counts = live_counts(store, newest, utc_now())
    backlog = counts.pending + counts.retrying
    if backlog > settings.backlog_allowed:
        said.append(
            f"{backlog:,} messages are in flight or waiting for a retry, more than the "
            f"{settings.backlog_allowed:,} of PIPELINE_BACKLOG_ALLOWED."
        )
    late = timedelta(minutes=settings.acker_late_minutes)
    if newest.folded_at is not None and utc_now() - newest.folded_at > late:
        said.append(
            f"The acker has not run since {newest.folded_at:%Y-%m-%d %H:%M} UTC: "
            f"look at the DAG {topology}.acker."
        )
    return said


def trim(run: Run) -> Counts:
    """Delete what nobody needs any more from streams (batches, by component) and events (rows)."""
    settings = Settings.from_env()
    streams = trim_streams(run, timedelta(hours=settings.stream_retention_hours))
    return streams | trim_events(run, timedelta(hours=settings.event_retention_hours))


def compact(run: Run) -> Counts:
    """Rewrite small files; counts per table how many fewer there are."""
    return maintain.compact(run)


def vacuum(run: Run) -> Counts:
    """Delete files past the retention."""
    return {"tables": len(maintain.vacuum(run, Settings.from_env().file_retention_hours))}

"""What an operator is told: found again at each look for as long as it lasts, whatever process died."""

import os
import shutil
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from threading import Event

import polars as pl
import pytest

from acker.components.spout import SpoutComponent
from acker.core.errors import BoltError, SettingsError
from acker.core.events import State
from acker.core.retry import ExponentialBackoff
from acker.core.store.schemas import ACKNOWLEDGEMENTS
from acker.core.store.store import Store
from acker.core.store.tables import last_number
from acker.operations.acknowledge import APP, acknowledge
from acker.operations.cycle import run_bolt, run_cycle, run_spout
from acker.operations.fold import fold
from acker.operations.maintenance import upkeep
from acker.operations.replay import plan_by_hand
from acker.operations.selection.selection import Selection
from acker.reports import late, places, sources
from acker.reports.health import findings
from acker.reports.looks import PAGE, Limits, Look
from acker.spouts import Backlog
from tests.kit import ROOT
from tests.kit.limits import LIMITS
from tests.kit.polars_topology import PolarsTopology, TableSource

HOUR_SECONDS = 3_600


@dataclass(frozen=True)
class Dated(TableSource):
    """A source that tells since when something is unread."""

    since: datetime | None = None

    def backlog(self, history):
        read = sum(len(planned) for planned in history.every())
        unread = len(self._messages()) - read
        return Backlog({"messages": unread} if unread else {}, self.since)


def topology(place, raises=False, refused=(1,), **settings):
    """Numbers, of which odd ones are given up at once."""
    made = PolarsTopology(
        "watched", **{"message_timeout": None, "retry": ExponentialBackoff(limit=0)} | settings
    )
    numbers = made.spout("numbers", TableSource(place.path("numbers")))

    @made.bolt(numbers)
    def even(tuples):
        if raises:
            raise BoltError("no route")
        odd = pl.when((pl.col("id") % 2).is_in(refused)).then(pl.lit("odd"))
        return tuples.with_columns(_error=odd)

    return made


def told(run, limits=LIMITS, **beside):
    """What is told, without the page."""
    said = [str(each) for each in findings(Look(run.topology, run.store, limits, run.clock(), **beside))]
    assert all(f" See {PAGE}#" in each for each in said)
    return [each.partition(f" See {PAGE}#")[0] for each in said]


def test_every_kind_of_finding_has_its_part_of_the_page():
    page = (ROOT / PAGE).read_text()
    kinds = [each.__name__.replace("_", "-") for each in (*late.LOOKS, *places.OF_SOURCES)]
    others = ["full-disks", "store", "publishers", "not-looked", "broken", "paused", "failed-upkeep", "audit"]
    assert [kind for kind in (*kinds, *others) if f'<a id="{kind}"></a>' not in page] == []


def test_nothing_is_told_where_nothing_has_run_and_where_all_is_well(place):
    place.add("numbers", id=[2, 4])
    run = place.run(topology(place))
    assert told(run) == []
    run_cycle(run)
    place.clock.advance(30 * 24 * HOUR_SECONDS)
    assert told(run) == []


def test_what_was_given_up_is_told_until_a_person_acknowledges_it(place):
    place.add("numbers", id=[1, 2, 3])
    run = place.run(topology(place))
    run_cycle(run)  # a process that died right after this fold told nobody
    for _ in range(2):
        assert told(run) == [
            "2 dead letters stand since fold 0: `acker failures watched` says why, watched.replay emits them "
            "again, `acker acknowledge watched --fold 1` ends this warning."
        ]
        fold(run)
        place.clock.advance(HOUR_SECONDS)
    assert (acknowledge(run, 2, "ann", "known"), told(run)) == (2, [])
    assert (acknowledge(run, 2, "ann", "again"), acknowledge(run, 1, "bob", "")) == (2, 2)
    place.add("numbers", id=[5])
    run_cycle(run)
    assert [each.partition(" since")[0] for each in told(run)] == ["1 dead letters stand"]


def test_what_was_given_up_after_the_look_stays_unacknowledged(place):
    place.add("numbers", id=[1])
    run = place.run(topology(place))
    run_cycle(run)
    (shown,) = told(run)
    assert "`acker acknowledge watched --fold 1` ends" in shown
    place.add("numbers", id=[3, 5])
    run_cycle(run)  # between the look and the command
    assert acknowledge(run, 1, "ann", "known") == 1
    (left,) = told(run)
    assert left.startswith("2 dead letters stand since fold 1: ")


@pytest.mark.parametrize(
    ("fold", "told"), [(None, "Say with --fold up to which"), (0, "Fold 0 of"), (9, "Fold 9 of")], ids=str
)
def test_a_fold_that_was_not_shown_is_not_acknowledged(place, fold, told):
    place.add("numbers", id=[1])
    run = place.run(topology(place))
    run_cycle(run)
    with pytest.raises(SettingsError, match=told):
        acknowledge(run, fold, "ann", "known")
    assert last_number(run.store.open(ACKNOWLEDGEMENTS), APP) == 0


def test_a_dead_letter_that_was_replayed_and_acked_is_told_no_more(place):
    place.add("numbers", id=[1])
    run = place.run(topology(place))
    run_cycle(run)
    assert len(told(run)) == 1
    mended = place.run(topology(place, refused=()))
    plan_by_hand(mended, Selection(states=(State.DEAD_LETTER,)), "mended", "tester")
    run_cycle(mended)
    assert told(mended) == []


def test_batches_that_nobody_folds_are_told_also_before_the_first_fold(place):
    place.add("numbers", id=[2])
    run = place.run(topology(place))
    run_spout(run, run.topology.spouts[0])
    assert told(run) == []
    place.clock.advance(3 * 24 * HOUR_SECONDS)
    assert told(run)[1:] == [
        "Events are logged and not folded since 2026-01-01 00:00 UTC, longer than the 15 minutes of "
        "PIPELINE_ACKER_LATE_MINUTES: look at the DAG watched.acker."
    ]


def test_a_batch_that_hangs_is_told_and_one_that_raises_as_held(place):
    place.add("numbers", id=[2])
    run = place.run(topology(place, raises=True))
    run_spout(run, run.topology.spouts[0])
    with pytest.raises(BoltError):
        run_bolt(run, run.topology.bolts[0])
    fold(run)
    (said,) = told(run)
    assert "even" in said and "`acker give-up watched even`" in said

    def hang(step):
        if step.name == "planned" and step.component == "numbers":
            raise KeyboardInterrupt  # as a task that is ended in the middle

    place.add("numbers", id=[4])
    hanging = place.run(topology(place), hang)
    with pytest.raises(KeyboardInterrupt):
        run_spout(hanging, hanging.topology.spouts[0])
    place.clock.advance(2 * HOUR_SECONDS)
    assert any(
        each.startswith(
            "Batch 2 of numbers is not done since 2026-01-01 00:00 UTC, longer than the 60 minutes"
        )
        for each in told(run)
    )
    others = PolarsTopology("watched", message_timeout=None)
    others.spout("letters", TableSource(place.path("numbers")))
    assert not any("Batch 2 of numbers" in each for each in told(place.run(others)))  # it is gone


def test_messages_that_do_not_settle_a_backlog_and_a_full_spout_are_told(place):
    place.add("numbers", id=list(range(0, 24, 2)))
    run = place.run(topology(place, max_pending=12))
    run_spout(run, run.topology.spouts[0])
    fold(run)
    place.clock.advance(25 * HOUR_SECONDS)
    assert told(run)[1:] == [
        "12 messages have not settled, the oldest since 2026-01-01 00:00 UTC, longer than the 1,440 minutes "
        "of PIPELINE_MESSAGE_LATE_MINUTES.",
        "12 messages are in flight or waiting for a retry, more than the 10 of PIPELINE_BACKLOG_ALLOWED.",
        "numbers reads nothing new: 12 of its messages are in flight, and max_pending allows 12.",
    ]


@pytest.mark.parametrize(
    ("an_hour_ago", "half_an_hour_ago", "now", "is_told"),
    [
        (1, 2, 3, True),  # 2 an hour: 11 in four hours
        (2, 3, 4, True),
        (7, 7, 8, False),  # it did not grow all the time
        (7, 8, 8, False),
        (7, 8, 9, True),
        (8, 8, 9, False),
        (7, 8, 11, False),  # which is told as a backlog that is too long
    ],
)
def test_a_backlog_that_grows_is_told_before_it_is_too_long(
    place, an_hour_ago, half_an_hour_ago, now, is_told
):
    run = place.run(topology(place))
    log, seen, emitted = Path(run.store.path("ledger"), "_delta_log"), set(), 0
    for count in (an_hour_ago, half_an_hour_ago, now):
        if count > emitted:
            place.add("numbers", id=list(range(2 * emitted, 2 * count, 2)))
            emitted = count
            run_spout(run, run.topology.spouts[0])
        fold(run)
        moment = place.clock().timestamp()
        for path in {*log.glob("*.json")} - seen:  # whose times are of this clock, as all others in this test
            os.utime(path, (moment, moment))
            seen.add(path)
        place.clock.advance(HOUR_SECONDS / 2)
    place.clock.advance(-HOUR_SECONDS / 2)
    said = [each for each in told(run) if "AHEAD" in each]
    if is_told:
        assert said == [
            f"{now} messages are in flight or waiting for a retry, an hour ago {an_hour_ago} were. At this "
            "rate they are more than the 10 of PIPELINE_BACKLOG_ALLOWED within the 4 hours of "
            "PIPELINE_BACKLOG_AHEAD_HOURS."
        ]
    else:
        assert said == []
    unlimited = Limits(**vars(LIMITS) | {"backlog_ahead": timedelta(0)})
    assert not [each for each in told(run, unlimited) if "AHEAD" in each]


def test_a_spout_that_reads_nothing_although_there_is_something_is_told(place):
    place.add("numbers", id=[2])
    limits = Limits(**vars(LIMITS) | {"spout_stalled": timedelta(hours=1)})
    made = PolarsTopology("watched", message_timeout=None)
    made.spout("numbers", Dated(place.path("numbers"), since=place.clock()))
    run = place.run(made)
    place.clock.advance(HOUR_SECONDS)
    assert told(run, limits) == []
    place.clock.advance(60)
    reads_nothing = (
        "numbers has 1 message to read and reads nothing since {} UTC, longer than the 60 minutes of "
        "PIPELINE_BATCH_LATE_MINUTES: look at the DAG watched.run."
    )
    assert told(run, limits) == [reads_nothing.format("2026-01-01 00:00")]  # also before anything has run
    assert told(run) == []  # with a schedule of its own
    run_cycle(run)
    place.add("numbers", id=[4])
    place.clock.advance(HOUR_SECONDS)
    assert told(run, limits) == []
    place.clock.advance(60)
    assert told(run, limits) == [reads_nothing.format("2026-01-01 01:01")]
    run_cycle(run)
    place.clock.advance(24 * HOUR_SECONDS)
    assert told(run, limits) == []


def test_a_disk_that_is_nearly_full_is_told_once_with_what_lies_on_it_and_so_are_its_inodes(place, tmp_path):
    run = place.run(topology(place))
    limits = Limits(**vars(LIMITS) | {"disk_free_percent": 101})
    beside = {"places": [("Airflow's logs", tmp_path / "not" / "there"), ("PIPELINE_HOME", Path("/proc"))]}
    said = told(run, limits, **beside)
    assert next(each.split(" has ")[0] for each in said if "inodes" in each) == (
        f"The disk of the store, Airflow's logs ({run.store.uri})"
    )
    assert sum("of its space" in each for each in said) == len(said) - 1
    assert told(run, **beside) == []


def test_a_logged_batch_that_a_bolt_does_not_take_is_told_by_its_own_limit(place):
    place.add("numbers", id=[2])
    run = place.run(topology(place))
    run_spout(run, run.topology.spouts[0])
    fold(run)
    place.clock.advance(HOUR_SECONDS)
    assert told(run) == []
    place.clock.advance(60)
    assert told(run) == [
        "even has not taken batch 1 of numbers since 2026-01-01 00:00 UTC, longer than the 60 minutes of "
        "PIPELINE_BATCH_LATE_MINUTES."
    ]


def test_messages_that_are_due_and_not_emitted_are_told_by_their_own_limit(place):
    place.add("numbers", id=[1, 2, 3])
    run = place.run(topology(place, retry=ExponentialBackoff(initial_seconds=60, limit=3)))
    run_cycle(run)
    place.clock.advance(60 + HOUR_SECONDS)
    assert told(run) == []
    place.clock.advance(60)
    assert told(run) == [
        "The next attempts of 2 messages are due and not emitted, the first since 2026-01-01 00:01 UTC, "
        "longer than the 60 minutes of PIPELINE_RETRY_LATE_MINUTES: look at the DAG watched.retry."
    ]


def test_a_spout_that_reads_nothing_for_longer_than_is_expected_is_told(place):
    place.add("numbers", id=[2])
    run = place.run(topology(place, expects="1 hour"))
    assert told(run) == []
    run_cycle(run)
    place.clock.advance(HOUR_SECONDS + 60)
    assert told(run) == [
        "numbers has read nothing new since 2026-01-01 00:00 UTC, longer than the 60 minutes in which its "
        "topology expects something (`expects`)."
    ]
    place.add("numbers", id=[4])
    run_cycle(run)
    assert told(run) == []


@dataclass(frozen=True)
class Gone(TableSource):
    """A source that cannot be looked at."""

    def backlog(self, history):
        raise ConnectionError("no route")


@dataclass(frozen=True)
class Hanging(TableSource):
    """A source that does not answer."""

    def backlog(self, history):
        Event().wait()


@pytest.mark.parametrize(
    ("source", "why"),
    [(Gone, "ConnectionError: no route"), (Hanging, "it has not answered within 0 s")],
)
def test_a_source_out_of_reach_is_told_beside_all_else_that_is_wrong(place, monkeypatch, source, why):
    monkeypatch.setattr(sources, "_SECONDS", 0.2)
    place.add("numbers", id=[1])
    run = place.run(topology(place))
    run_cycle(run)
    run.topology._add(SpoutComponent("others", source=source(place.path("numbers"))))
    first, *more = told(run)
    assert first == f"The source of others cannot be looked at: {why}."
    assert [each.partition(" since")[0] for each in more] == ["1 dead letters stand"]


def test_a_look_that_raises_is_told_and_hides_no_other(place):
    place.add("numbers", id=[1])
    run = place.run(topology(place))
    run_cycle(run)
    place.add("numbers", id=[2])
    Path(run.store.path("acknowledgements"), "_delta_log", f"{0:020}.json").write_text("{")  # torn
    Path(run.store.path("upkeep"), "_delta_log", f"{0:020}.json").write_text("{")
    run_spout(run, run.topology.spouts[0])
    place.clock.advance(3 * 24 * HOUR_SECONDS)
    found = findings(Look(run.topology, Store(run.store.uri, "watched"), LIMITS, run.clock()))
    assert [(each.kind, each.subject) for each in found] == [
        ("late-batches", "even"),
        ("late-folds", ""),
        ("not-looked", "given-up"),
        ("not-looked", "late-upkeep"),
        ("not-looked", "failed-upkeep"),
    ]
    assert found[2].said.startswith("Given up could not be looked at: The Delta table")


def test_a_store_that_is_gone_is_told_also_where_nothing_is_published(place):
    place.add("numbers", id=[2])
    run = place.run(topology(place))
    run_cycle(run)
    where = run.store.path("").rstrip("/")
    shutil.move(where, place.path("away"))
    assert told(run) == []  # on a machine that has never worked on it
    assert told(run, known_store=where) == [
        f"There is no store at {where}: it is gone, or this is another path. When something last ran it was "
        f"at {where}. Mount it, or set PIPELINE_HOME or PIPELINE_STORE."
    ]


def test_upkeep_that_fails_or_is_late_is_told_until_it_is_done(place, monkeypatch):
    monkeypatch.setattr(upkeep, "utc_now", place.clock)
    limits = Limits(
        **vars(LIMITS) | {"upkeep_late": {"audit": timedelta(days=2), "backup": timedelta(days=7)}}
    )
    place.add("numbers", id=[2])
    run = place.run(topology(place))
    assert told(run, limits) == []
    run_cycle(run)
    place.clock.advance(3 * 24 * HOUR_SECONDS)
    assert told(run, limits) == [
        "The audit has not ended since 2026-01-01 00:00 UTC, longer than the 2,880 minutes that may take: "
        "look at the DAG watched.maintain."
    ]
    with pytest.raises(ZeroDivisionError), upkeep.noted(run.store, "trim"):
        raise ZeroDivisionError("why")
    with upkeep.noted(run.store, "audit") as faults:
        faults += ["1 lost", "2 duplicated"]
    assert told(run, limits) == [
        "The audit of 2026-01-04 00:00 UTC failed: 1 lost; 2 duplicated.",
        "The trim of 2026-01-04 00:00 UTC failed: why.",
    ]
    for step in ("audit", "trim"):
        with upkeep.noted(run.store, step):
            pass
    assert told(run, limits) == []
    place.clock.advance(4 * 24 * HOUR_SECONDS + 60)
    assert [each.partition(",")[0] for each in told(run, limits)] == [
        "The store has no backup since 2026-01-01 00:00 UTC: call `acker backup`.",
        "The audit has not ended since 2026-01-04 00:00 UTC",
    ]

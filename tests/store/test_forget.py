"""What the store tells of a message's own data is forgotten, and nothing else changes."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta

import polars as pl
import pytest
from deltalake.exceptions import CommitFailedError

from acker.airflow import tasks
from acker.batches.holds import held_if_it_raises
from acker.batches.plan import plan_bolt
from acker.core.errors import SettingsError
from acker.core.events import SELECTABLE
from acker.core.retry import ExponentialBackoff
from acker.core.store.schemas import EVENTS, HOLDS, LEDGER, REPLAY_REQUESTS
from acker.core.store.store import Store
from acker.core.store.tables import files_of, query
from acker.operations.cycle import run_bolt, run_cycle, run_spout
from acker.operations.fold import fold
from acker.operations.maintenance.compact import compact
from acker.operations.maintenance.forget import Forgotten, dry_run, expire_reasons, forget
from acker.operations.selection.selection import Selection
from acker.reports.audit import audit_report
from tests.kit.polars_topology import PolarsTopology, TableSource, rows

ALL = tuple(SELECTABLE)
BAD = pl.format("no card 4111-{}", "id")


def failing(place, **settings):
    """Numbers, of which 1 and 2 fail in each of two attempts with their card as the reason."""
    retry = ExponentialBackoff(initial_seconds=60, limit=1)
    topology = PolarsTopology("cards", retry=retry, **settings)
    numbers = topology.spout("numbers", TableSource(place.add("numbers", id=[1, 2, 3])))
    topology.bolt(numbers, name="checked")(
        lambda tuples: tuples.with_columns(_error=pl.when(pl.col("id") < 3).then(BAD))
    )
    return place.run(topology)


@pytest.fixture
def run(place):
    """Both have become dead letters."""
    run = failing(place)
    for _ in range(2):
        run_cycle(run)
        place.clock.advance(60)
    return run


def named(*offsets):
    return Selection(states=ALL, spout="numbers", positions=tuple(("0", each) for each in offsets))


def reasons(run, name):
    """Reason -> how many rows of a table have it, in its newest version."""
    found = rows(run.store.require(name)).filter(pl.col("reason").is_not_null())
    return dict(found["reason"].value_counts().sort("reason").rows())


def others(run, name):
    """All rows of a table without their reasons."""
    found = rows(run.store.require(name)).select(pl.exclude("reason", "logged"))
    return found.sort(found.columns).rows()


def test_the_reasons_of_all_attempts_of_a_message_go_and_nothing_else_changes(run, states):
    before = others(run, EVENTS), states(run)
    assert forget(run, named(1), "asked to", "ada") == Forgotten(1, events=2, ledger=3)
    assert reasons(run, EVENTS) == {"forgotten": 2, "no card 4111-2": 2}
    assert reasons(run, LEDGER) == {"forgotten": 3, "no card 4111-2": 3}
    assert (others(run, EVENTS), states(run)) == before
    assert audit_report(run.topology, run.store).passed
    run_cycle(run)
    assert states(run) == before[1]


def test_what_is_forgotten_is_in_no_file_that_the_newest_versions_have(run):
    forget(run, named(1, 2), "asked to", "ada")
    for name in (EVENTS, LEDGER):
        frames = [
            pl.read_parquet(file, hive_partitioning=False) for file in files_of(run.store.require(name))
        ]
        texts = [text for frame in frames if "reason" in frame for text in frame["reason"].drop_nulls()]
        assert set(texts) == {"forgotten"}


def test_done_again_it_finds_nothing_and_writes_nothing(run):
    forget(run, named(1), "asked to", "ada")
    versions = [run.store.require(name).version() for name in (EVENTS, LEDGER)]
    assert forget(run, named(1), "asked to", "ada") == Forgotten(1)
    assert [run.store.require(name).version() for name in (EVENTS, LEDGER)] == versions


def test_who_asked_for_it_and_why_is_kept_without_a_reason_that_was_searched_for(run):
    forget(run, Selection(states=ALL, reason="4111-1"), "asked to", "ada")
    (row,) = query("SELECT * FROM r", r=run.store.require(REPLAY_REQUESTS))
    assert (row["requested_by"], row["why"], row["matched"]) == ("ada", "asked to", 1)
    assert "4111" not in row["selection"] and '"reason": "forgotten"' in row["selection"]


def test_a_dry_run_counts_what_would_go_and_changes_nothing(run):
    journal = run.snapshot()
    assert dry_run(run.topology, journal, named(1, 7)) == Forgotten(1, unknown=1, events=2, ledger=3)
    assert reasons(run, EVENTS) == {"no card 4111-1": 2, "no card 4111-2": 2}


@pytest.mark.parametrize("folds", [0, 1])
def test_messages_in_flight_are_refused_and_nothing_is_forgotten(place, folds):
    run = failing(place)
    run_cycle(run)
    if not folds:  # the second attempt is logged and not folded
        place.clock.advance(60)
        run_spout(run, run.topology.components["numbers"])
    with pytest.raises(SettingsError, match=r"numbers:0:1 and 1 more of these messages.* are in flight"):
        forget(run, named(1, 2), "asked to", "ada")
    assert set(reasons(run, EVENTS)) == {"no card 4111-1", "no card 4111-2"}


@dataclass(frozen=True)
class BusyStore(Store):
    """A store in which something else happens whenever a table is opened to be changed."""

    meanwhile: Callable[[str], None] = lambda table: None

    def require(self, table, version=None):
        found = super().require(table, version)
        self.meanwhile(table)
        return found


def busy(run, meanwhile):
    """The run with such a store."""
    return replace(run, store=BusyStore(run.store.uri, run.store.topology, meanwhile))


@pytest.fixture
def run_with_events(place, run):
    """Another message was taken in and checked, and no fold has seen it."""
    place.add("numbers", id=[4])
    run_spout(run, run.topology.components["numbers"])
    run_bolt(run, run.topology.components["checked"])
    return run


def test_commits_that_come_between_are_no_loss(run_with_events, states):
    run, opened = run_with_events, []

    def meanwhile(table):
        opened.append(table)
        if opened.count(table) == 1 and table in (EVENTS, LEDGER):
            fold(run)  # appends to the ledger
            compact(run)  # takes away the files that are being written anew

    assert forget(busy(run, meanwhile), named(1), "asked to", "ada") == Forgotten(1, events=2, ledger=3)
    assert opened == [REPLAY_REQUESTS, HOLDS, *[EVENTS] * 3, *[LEDGER] * 4]
    assert reasons(run, EVENTS) == {"forgotten": 2, "no card 4111-2": 2}
    assert reasons(run, LEDGER) == {"forgotten": 3, "no card 4111-2": 3}
    assert (4, 1, "acked") in states(run)
    assert audit_report(run.topology, run.store).passed


def test_a_fold_that_appends_meanwhile_is_not_in_the_way(run_with_events, states):
    run, opened = run_with_events, []

    def meanwhile(table):
        opened.append(table)
        if table == LEDGER and LEDGER not in opened[:-1]:
            fold(run)

    forget(busy(run, meanwhile), named(1), "asked to", "ada")
    assert opened.count(LEDGER) == 4  # to read, after the fold's commit, and twice for old live rows
    assert (4, 1, "acked") in states(run)
    assert audit_report(run.topology, run.store).passed


def test_a_compaction_during_whose_work_reasons_are_forgotten_is_refused_and_loses_nothing(run):
    opened = run.store.require(LEDGER)
    forget(run, named(1), "asked to", "ada")
    with pytest.raises(CommitFailedError):
        opened.optimize.compact([("live_in", "=", "")])
    assert reasons(run, LEDGER) == {"forgotten": 3, "no card 4111-2": 3}


def test_the_holds_of_a_batch_that_took_a_message_in_are_forgotten(place, run):
    place.add("numbers", id=[4, 5])
    run_spout(run, run.topology.components["numbers"])
    checked = run.topology.components["checked"]
    batch = plan_bolt(run, run.snapshot(), checked)
    with pytest.raises(ValueError, match="4111-4"), held_if_it_raises(run, batch):
        raise ValueError("no card 4111-4")
    assert reasons(run, HOLDS) == {"no card 4111-4": 1}
    run_cycle(run)
    assert forget(run, named(3), "asked to", "ada") == Forgotten(1)
    assert forget(run, named(4), "asked to", "ada") == Forgotten(1, holds=1)
    assert reasons(run, HOLDS) == {"forgotten": 1}


def test_reasons_past_their_retention_expire_once_and_later_ones_stay(place, run):
    place.clock.advance(10 * 86_400)
    place.add("numbers", id=[0])
    run_cycle(run)
    compact(run)
    day = timedelta(days=1)
    assert expire_reasons(run, 5 * day) == {EVENTS: 4, LEDGER: 6}
    assert reasons(run, EVENTS) == {"expired": 4, "no card 4111-0": 1}
    assert reasons(run, LEDGER) == {"expired": 6, "no card 4111-0": 2}
    versions = [run.store.require(name).version() for name in (HOLDS, EVENTS, LEDGER)]
    assert expire_reasons(run, 5 * day) == {}
    assert [run.store.require(name).version() for name in (HOLDS, EVENTS, LEDGER)] == versions
    assert audit_report(run.topology, run.store).passed


def test_what_the_acker_says_itself_quotes_no_row_and_stays(place):
    late = {"message_timeout": "1 minute", "hard_timeout": "1 minute", "windows": 1}
    topology = PolarsTopology("late", retry=ExponentialBackoff(limit=0), **late)
    numbers = topology.spout("numbers", TableSource(place.add("numbers", id=[1])))
    topology.bolt(numbers, name="same")(lambda tuples: tuples)
    run = place.run(topology)
    run_spout(run, numbers)
    for _ in range(3):
        fold(run)
        place.clock.advance(60)
    assert forget(run, named(1), "asked to", "ada") == Forgotten(1)
    assert expire_reasons(run, timedelta(0)) == {}
    assert reasons(run, LEDGER) == {"not complete within 0:01:00": 2}


@pytest.mark.parametrize(("days", "done"), [("", {}), ("5", {"reasons": 10})])
def test_the_maintenance_lets_reasons_expire_where_that_is_asked_for(place, run, monkeypatch, days, done):
    place.clock.advance(10 * 86_400)
    monkeypatch.setenv("PIPELINE_REASON_RETENTION_DAYS", days)
    monkeypatch.setenv("PIPELINE_STREAM_RETENTION_HOURS", "9999")
    monkeypatch.setenv("PIPELINE_EVENT_RETENTION_HOURS", "9999")
    assert tasks.trim(run) == {EVENTS: 0} | done

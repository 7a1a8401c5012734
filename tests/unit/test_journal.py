"""The journal without Spark: processes that plan at once, and tables as Spark would make them."""

import json
import multiprocessing
import os
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest

from acker.core.errors import StoreError
from acker.core.snapshot.inputs import Replay, SourceRange, Span, Spans
from acker.core.snapshot.journal import Journal
from acker.core.snapshot.planned import Batch
from acker.core.snapshot.replays import messages_of
from acker.core.store.schemas import BATCHES, EVENTS, LEDGER, SCHEMAS
from acker.core.store.store import Store
from acker.core.store.tables import append_rows

ROUNDS = 20
NOW = datetime(2026, 1, 1, tzinfo=UTC)
COMMITS = 110  # a checkpoint is made every 100
TWO_DAYS_SECONDS = 2 * 86_400


@pytest.fixture
def journal(tmp_path):
    store = Store(str(tmp_path / "store"), "racing")
    store.create()
    return Journal(store)


def batch(component, number, run_id):
    return Batch(component, number, "next", SourceRange({"upto": 1}), ("a", "b"), NOW, run_id)


def plan_all(store, component, run_id, start, answers):
    """Plan every number at the same moment as the other processes, and tell who got which."""
    for number in range(1, ROUNDS + 1):
        journal = Journal(store)
        start.wait()
        answers.put((component, number, journal.append(batch(component, number, run_id)).run_id))


@pytest.mark.extended
def test_of_processes_that_plan_one_number_one_wins_and_all_follow_it(journal):
    spawned = multiprocessing.get_context("spawn")  # deltalake's threads do not outlive a fork
    start, answers = spawned.Barrier(4), spawned.Queue()
    processes = [
        spawned.Process(target=plan_all, args=(journal.store, component, run_id, start, answers), daemon=True)
        for component, run_id in (("one", "a"), ("one", "b"), ("one", "c"), ("other", "d"))
    ]
    for process in processes:
        process.start()
    told = {answers.get(timeout=60) for _ in range(4 * ROUNDS)}
    for process in processes:
        process.join()
    rows = [(row.component, row.number, row.run_id) for row in Journal(journal.store).rows("true")]
    assert len(rows) == 2 * ROUNDS
    assert set(rows) == told


def test_a_number_that_was_planned_before_keeps_its_row(journal):
    first = journal.append(batch("one", 1, "a"))
    assert journal.append(batch("one", 1, "b")) == first == batch("one", 1, "a")
    assert (journal.planned("one"), journal.planned("two")) == (1, 0)


def test_an_edge_is_known_by_the_newest_batch_that_was_planned_for_it(journal):
    for number, edges in ((1, ("a", "b")), (2, ("b",)), (3, ())):
        journal.append(replace(batch("one", number, "a"), edges=edges))
    journal.append(replace(batch("b", 1, "a"), input=Spans({}), edges=()))
    assert Journal(journal.store).edges == {"one": {"a": 1, "b": 2}, "b": {}}


def test_the_spans_of_a_bolts_batch_tell_where_the_bolt_stands():
    spans = Spans({"one": Span(1, 3), "gone": Span(2, 2)})
    assert (spans.ends, spans.taken_in) == ({"one": 3, "gone": 2}, ["one"])
    assert (spans.end("one"), spans.end("two")) == (3, 0)


@pytest.mark.parametrize(
    "described",
    [
        {"topic-0": {"after": 0, "upto": 10}},
        {"messages": {"0": [[1, 2, None]]}},
        {"messages": []},
        {},
        [],
        0,
        "",
        False,
    ],
    ids=str,
)
def test_a_spouts_range_may_be_any_json_value(journal, described):
    again = Replay("plan", 1, -5, 2, replaces=False)
    journal.append(replace(batch("one", 1, "a"), input=SourceRange(described), edges=("bolt",)))
    journal.append(replace(batch("bolt", 1, "a"), input=Spans({"one": Span(0, 1)}), edges=()))
    journal.append(replace(batch("one", 2, "a"), kind="replay", input=again))
    for reader in (journal, Journal(journal.store, {"one": "spout", "bolt": "bolt"})):
        assert [row.input for row in reader.all("one")] == [SourceRange(described), again]
        assert reader.read("bolt", 1).spans.ends == {"one": 1}
        reader.check_batches()


def test_of_batches_that_are_planned_together_all_numbers_must_be_free(journal):
    ours = [batch("one", number, "a") for number in (1, 2, 3)]
    Journal(journal.store).append(batch("one", 1, "b"))
    for late in (journal, Journal(journal.store)):
        assert not late.append_all(ours)
    again = Journal(journal.store)
    assert again.append_all([batch("one", 2, "a"), batch("one", 3, "a"), batch("two", 1, "a")])
    found = [(each.component, each.number, each.run_id) for each in Journal(journal.store).rows("true")]
    assert found == [("one", 1, "b"), ("one", 2, "a"), ("one", 3, "a"), ("two", 1, "a")]
    assert (Journal(journal.store).planned("one"), Journal(journal.store).unfinished("one").number) == (3, 1)


def test_messages_that_an_older_version_kept_in_the_journal_are_read(journal):
    row = {
        "component": "one",
        "batch": 1,
        "kind": "replay",
        "input": json.dumps({"messages": {"0": [[1, 2, None], [3, 4, -9]], "a": [[-1, 2, None]]}}),
        "edges": [],
        "planned_at": NOW,
        "run_id": "old",
    }
    rows = pa.Table.from_pylist([row], SCHEMAS[BATCHES].arrow())
    append_rows(journal.store.require(BATCHES), rows, "one", 1)
    (found,) = Journal(journal.store).all("one")
    assert (len(found.replay), found.replay.highest_attempt, found.replay.replaces) == (3, 4, True)
    assert messages_of(journal.store, found).rows() == [
        ("0", 1, 2, None),
        ("0", 3, 4, -9),
        ("a", -1, 2, None),
    ]


class Busy(Store):
    """A store in which somebody plans and logs a batch after each look at a table."""

    def open(self, table, version=None):
        found = super().open(table, version)
        number = self.last_number(BATCHES, "one") + 1 if table in (LEDGER, EVENTS, BATCHES) else 0
        if number:
            quiet = Store(self.uri, self.topology)
            Journal(quiet).append(batch("one", number, "other"))
            rows = pa.Table.from_pylist([{"component": "one", "batch": number}], SCHEMAS[EVENTS].arrow())
            append_rows(quiet.require(EVENTS), rows, "one", number)
        return found

    def last_number(self, table, app, version=None):
        return Store(self.uri, self.topology).last_number(table, app, version)


def test_a_snapshot_holds_every_plan_of_what_is_logged_in_it(journal):
    busy = Journal(Busy(journal.store.uri, journal.store.topology), {"one": "spout"})
    assert (busy.logged("one"), busy.planned("one")) == (1, 2)
    assert busy.unfinished("one").number == 2


def test_the_tables_have_the_columns_and_properties_of_their_schemas(journal):
    ledger, batches = (journal.store.require(name) for name in (LEDGER, BATCHES))
    assert ledger.metadata().partition_columns == ["live_in"]
    assert batches.metadata().configuration == SCHEMAS[BATCHES].table_properties()
    assert [field.name for field in ledger.schema().fields][-3:] == ["events", "window", "logged"]
    journal.store.create()
    assert ledger.version() == journal.store.require(LEDGER).version() == 0


def test_who_follows_the_newest_batches_reads_back_to_the_first_that_it_needs(journal):
    count = 1000
    planned = [
        {
            "component": "bolt",
            "batch": number,
            "kind": "next",
            "input": json.dumps({"numbers": {"after": number - 1, "upto": number}}),
            "edges": [],
            "planned_at": NOW,
            "run_id": "a",
        }
        for number in range(1, count + 1)
    ]
    rows = pa.Table.from_pylist(planned, SCHEMAS[BATCHES].arrow())
    append_rows(journal.require(BATCHES), rows, "bolt", count)
    journal = Journal(journal.store, {"bolt": "bolt"})
    for first in (1, 450, 901, count):
        assert journal.given("bolt", "numbers", [first]) == [first]
    assert sorted(journal.given("bolt", "numbers", [3, 450, 451, count])) == [3, 450, 451, count]
    assert journal.given("bolt", "letters", [1]) == []


def test_a_batch_can_be_given_what_the_bolt_still_holds_back(journal):
    for number, span in enumerate((Span(0, 3), Span(3, 4, held=2), Span(4, 4), Span(4, 6, held=4)), 1):
        journal.append(replace(batch("bolt", number, "a"), input=Spans({"numbers.odd": span}), edges=()))
        journal = Journal(journal.store, {"bolt": "bolt"})
    given = {n: sorted(journal.given("bolt", "numbers.odd", [n])) for n in range(1, 8)}
    assert given == {1: [1], 2: [1, 2], 3: [1, 2], 4: [2, 4], 5: [4], 6: [4], 7: []}


@pytest.mark.parametrize(
    "damaged", [None, "", "{", "5", '{"numbers":{"after":0}}', '{"numbers":{"upto":[]}}']
)
def test_nobody_follows_a_batch_that_no_run_planned(journal, damaged):
    row = {"component": "bolt", "batch": 1, "kind": "next", "input": damaged, "edges": [], "planned_at": NOW}
    rows = pa.Table.from_pylist([{**row, "run_id": "a"}], SCHEMAS[BATCHES].arrow())
    append_rows(journal.store.require(BATCHES), rows, "bolt", 1)
    with pytest.raises(StoreError, match=r"has a row that no run wrote, .*of bolt"):
        Journal(journal.store, {"bolt": "bolt"}).given("bolt", "numbers", [1])


def test_a_spouts_history_is_what_it_described(journal):
    ranges = [{"to": 1}, 0, [], "a,b"]
    for number, described in enumerate(ranges, 1):
        journal.append(replace(batch("one", number, "a"), input=SourceRange(described)))
        journal = Journal(journal.store)
    assert (journal.described("one", 4), journal.described("one", 2)) == (ranges, ranges[:2])
    assert journal.described("two", 4) == []


def test_the_log_of_a_table_keeps_a_day_and_the_table_all_rows_and_numbers(journal):
    log = Path(journal.store.path(BATCHES), "_delta_log")
    journal.append(batch("first", 1, "a"))
    for number in range(1, COMMITS):
        for file in log.iterdir():
            long_ago = time.time() - TWO_DAYS_SECONDS
            os.utime(file, (long_ago, long_ago))
        journal.append(batch("one", number, "a"))
    assert len(list(log.iterdir())) < COMMITS - 90
    assert [journal.planned(name) for name in ("first", "one")] == [1, COMMITS - 1]
    assert [row.number for row in journal.rows("true")] == [1, *range(1, COMMITS)]

"""Logs and folds by Spark's tasks: what they leave is what the caller would have left."""

import os
import sys
from collections import Counter
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from acker.components.collector import RichBolt
from acker.core.errors import ServerError, StoreError
from acker.core.retry import ExponentialBackoff
from acker.core.store.ids import Task, tasks
from acker.core.store.schemas import EVENTS, LEDGER, stream
from acker.core.store.tables import files_of, query
from acker.core.tasks import ROWS_AT_ONCE
from acker.operations.cycle import run_cycle
from acker.reports.audit import audit_report
from acker.spark.tasks import ROWS_OF_A_TASK, SparkTasks, acker_tasks
from acker.spouts import DeltaSpout
from acker.topology.topology import Topology
from tests.kit.places import Place
from tests.kit.stops import Stop

ALL = range(1, 13)
PAIRED = 7  # from it on a bolt waits for partners


class Pairs(RichBolt):
    """Joins tuples of a key, and fails one message as long as a file is there."""

    def __init__(self, outage):
        self.outage = outage

    def prepare(self, context):
        self.first = {}

    def execute(self, tup, collector):
        if tup.id == 1 and os.path.exists(self.outage):
            collector.fail(tup, "not yet")
        elif tup.id < PAIRED:
            collector.emit(tup, {"key": tup.id, "ids": str(tup.id)})
            collector.ack(tup)
        elif other := self.first.pop(tup.key, None):
            collector.emit([other, tup], {"key": tup.key, "ids": f"{other.id} {tup.id}"})
            collector.ack(other)
            collector.ack(tup)
        else:
            self.first[tup.key] = tup


def pairing(place):
    """Numbers of which some fail once, and others are joined in pairs that lie in different batches."""
    source = place.add("source", id=list(ALL), key=[number % 3 for number in ALL])
    topology = Topology("pairing", batch_rows=7, retry=ExponentialBackoff(initial_seconds=1))
    numbers = topology.spout("numbers", DeltaSpout(source, key="id"))
    make = partial(Pairs, place.path("outage"))
    pairs = topology.rich_bolt(numbers, schema="key bigint, ids string", name="pairs")(make)
    topology.publish(pairs, to=place.path("pairs"))
    return place.run(topology)


def ledger(run):
    """What each row says, of all folds, but for the ids of tuples, which follow from the names of files."""
    what = (
        "fold, live_in, root_id, attempt, outstanding, reason, component, batch, turn, joined, events, state"
    )
    where = "root_id IS NOT NULL"  # a fold's own row has checksums over the ids of tuples
    rows = query(f"SELECT {what} FROM t WHERE {where}", t=run.store.require(LEDGER))
    return [tuple(row.values()) for row in rows]


def events(run):
    """What each event says, but for those ids."""
    what = "root_id, emitted, consumed, attempt, joined, component, batch, reason, kind"
    return [
        tuple(row.values())
        for row in query(f"SELECT {what} FROM t WHERE root_id IS NOT NULL", t=run.store.require(EVENTS))
    ]


def test_three_tasks_of_spark_leave_what_the_caller_leaves(tmp_path, spark, empty_store):
    found = {}
    for number in (1, 3):
        by_tasks = acker_tasks(number, ROWS_AT_ONCE, lambda: spark)
        place = Place(tmp_path / str(number), spark, empty_store, by_tasks)
        run = pairing(place)
        Path(place.path("outage")).touch()
        run_cycle(run)
        Path(place.path("outage")).unlink()
        place.clock.advance(5)
        run_cycle(run)
        assert audit_report(run.topology, run.store).passed
        found[number] = place.rows("pairs"), *map(Counter, (ledger(run), events(run)))
    for by_one, by_three in zip(found[1], found[3], strict=True):
        assert by_three == by_one
    assert {state for *_, state in ledger(run)} >= {"acked", "failed"}
    assert "join" in {kind for *_, kind in events(run)}
    by_task = [file for file in files_of(run.store.require(EVENTS)) if "/task-" in file]
    assert {Task(number, 3).prefix in file for file in by_task for number in range(3)} == {True, False}


def test_what_a_task_says_of_a_damaged_file_is_raised_as_it_is(tmp_path, spark, empty_store):
    def stop(step):
        if step.name == "written":
            raise Stop

    place = Place(tmp_path / "place", spark, empty_store, acker_tasks(2, ROWS_AT_ONCE, lambda: spark))
    run = pairing(place)
    with pytest.raises(Stop):
        run_cycle(replace(run, on_step=stop))
    files = files_of(run.store.require(stream("numbers")))
    for file in files:
        Path(file).write_bytes(b"")
    with pytest.raises(StoreError, match=r"cannot be read: .*Damage and the way out"):
        run_cycle(run)


def test_executors_without_a_module_are_named_with_what_to_do(spark, tmp_path, monkeypatch):
    (tmp_path / "only_here.py").write_text("def work(task):\n    return 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    import only_here

    there = acker_tasks(2, ROWS_AT_ONCE, lambda: spark)
    with pytest.raises(ServerError, match=r"no Python module 'only_here'.*or set PIPELINE_ACKER_TASKS=1"):
        list(there.run(only_here.work, tasks(2)))
    sys.modules.pop("only_here")


@pytest.mark.parametrize(
    ("number", "rows", "shared"),
    [
        (None, 2 * ROWS_OF_A_TASK - 1, 1),
        (None, 3 * ROWS_OF_A_TASK, 3),
        (4, 0, 1),
        (4, 1, 4),
        (2, 3 * ROWS_AT_ONCE, 3),
        (10_000, 1, 4096),
    ],
)
def test_tasks_follow_the_rows_or_what_was_asked_for(number, rows, shared):
    found = SparkTasks(number, ROWS_AT_ONCE, lambda: pytest.fail("a session was asked for"))
    assert len(found.among(rows)) == shared
    assert found.are_elsewhere(found.among(rows)) == (shared > 1)

"""One batch: events come from committed rows, in one commit, whatever the transformation does later."""

from dataclasses import replace

import polars as pl
import pytest
from pyspark.sql import functions as F

from acker.core.store.ids import bucket
from acker.core.store.tables import query
from acker.operations.cycle import run_bolt, run_cycle, run_spout
from acker.reports.audit import audit_report
from acker.spark.columns import root_id
from acker.spouts import DeltaSpout
from acker.topology.topology import Topology
from tests.kit.stops import Stop, stopping_at


@pytest.fixture(scope="module")
def resumed(shared_place):
    """A bolt that emits other rows at every call, and as many as it was called, stopped before its log."""
    source = shared_place.add("numbers", id=[1, 2, 3])
    topology = Topology("drawing")
    numbers = topology.spout("numbers", DeltaSpout(source, key="id"))
    calls = []

    @topology.bolt(numbers)
    def drawn(tuples):
        calls.append(None)
        return tuples.select(
            "anchor", F.explode(F.sequence(F.lit(1), F.lit(len(calls)))).alias("call"), F.uuid().alias("draw")
        )

    topology.publish(drawn, to=shared_place.path("drawn"))
    with pytest.raises(Stop):
        run_cycle(shared_place.run(topology, stopping_at("written", "drawn")))
    calls.append(None)
    run = shared_place.run(topology)
    run_cycle(run)
    return topology, run


def test_a_transformation_that_would_give_other_rows_the_second_time_does_no_harm(resumed, shared_place):
    topology, run = resumed
    stream = query("SELECT * FROM s", s=run.store.require("streams/drawn"))
    assert len(stream) == 3
    assert shared_place.rows("drawn") == sorted((row["call"], row["draw"]) for row in stream)
    assert audit_report(topology, run.store).acked == 3


def test_a_batch_logs_in_one_commit(resumed):
    run = resumed[1]
    commits = [commit["operation"] for commit in run.store.require("events").history()]
    assert commits == ["WRITE", "WRITE", "CREATE TABLE"]


def test_all_attempts_of_a_message_lie_in_one_bucket(spark):
    attempts = [("0", offset, attempt) for offset in range(20) for attempt in (1, 2)]
    rows = spark.createDataFrame(attempts, "_source_partition string, _source_offset long, _attempt int")
    roots = [rows.select(root_id("t", "lines", batch, F.col("_attempt"))).collect() for batch in (1, 2)]
    ids = [row[0] for each in roots for row in each]
    assert len(set(ids)) == len(ids) == 80
    buckets = pl.DataFrame({"root_id": ids}).select(bucket(pl.col("root_id")))["root_id"].to_list()
    of_message = [set(buckets[first:80:40] + buckets[first + 1 : 80 : 40]) for first in range(0, 40, 2)]
    assert {len(each) for each in of_message} == {1}
    assert len(set(buckets)) > 10


@pytest.mark.extended
def test_a_tuple_that_is_gone_from_its_stream_is_not_consumed(place):
    topology = Topology("gone")
    source = DeltaSpout(place.add("numbers", id=[1, 2, 3]), key="id")
    numbers = topology.spout("numbers", source)
    kept = topology.bolt(numbers, name="kept")(lambda tuples: tuples)
    run = place.run(topology)

    def lose(step):
        if (step.component, step.name) == ("kept", "written"):
            run.spark.sql(f"DELETE FROM delta.`{run.store.path('streams/numbers')}` WHERE id = 2")

    run_spout(run, numbers)
    run_bolt(replace(run, on_step=lose), kept)
    sums = (
        "SELECT bit_xor(ack_val) AS ack_val, sum(emitted - consumed) AS outstanding FROM e "
        "WHERE root_id IS NOT NULL GROUP BY root_id"
    )
    found = query(sums, e=run.store.require("events"))
    assert sorted((row["ack_val"] == 0, row["outstanding"]) for row in found) == [
        (False, 0),  # Delta wrote another file instead, whose tuples have other ids
        (False, 0),
        (False, 1),
    ]


def test_a_batch_is_taken_once_it_is_logged_and_not_before(place):
    topology = Topology("early")
    numbers = topology.spout("numbers", DeltaSpout(place.add("numbers", id=[1]), key="id"))
    kept = topology.bolt(numbers, name="kept")(lambda tuples: tuples)
    with pytest.raises(Stop):
        run_spout(place.run(topology, stopping_at("written", "numbers")), numbers)
    run = place.run(topology)
    assert run_bolt(run, kept) == 0
    run_spout(run, numbers)
    assert run_bolt(run, kept) == 1


def test_jobs_of_spark_are_tagged_with_what_they_are_for(place):
    told = []
    topology = Topology("tagged")
    numbers = topology.spout("numbers", DeltaSpout(place.add("numbers", id=[1]), key="id"))

    @topology.bolt(numbers)
    def same(tuples):
        told.append({*tuples.sparkSession.getTags()})
        return tuples

    run = place.run(topology)
    run_cycle(run)
    assert told == [{"topology=tagged", "component=same", "batch=1", f"run={run.run_id}"}]
    assert run.spark.getTags() == set()

"""What the tests without Spark rest on: batches that are written on Polars are as those that Spark writes."""

import pytest
from deltalake import DeltaTable

from acker.core.events import State
from acker.core.store.tables import query
from acker.operations.cycle import run_cycle
from acker.operations.replay import replay_by_hand
from acker.operations.selection.selection import Selection
from tests.kit.changing import CHAIN, POLARS, SPARK, build
from tests.kit.places import Place


@pytest.fixture
def runs(tmp_path, spark, empty_store):
    """On Spark and on Polars: two messages are acked and replayed by hand, the second of which is gone."""
    found = []
    for engine in (SPARK, POLARS):
        place = Place(tmp_path / engine.topology.__name__, spark, empty_store)
        place.add("numbers", id=[1, 2])
        run = place.run(build(engine, place, CHAIN))
        run_cycle(run)
        DeltaTable(place.path("numbers")).delete("id = 2")
        replay_by_hand(run, Selection(states=(State.ACKED,)), "why", "me")
        run_cycle(run)
        found.append(run)
    return found


def columns(run, stream):
    return {field.name: field.type.type for field in run.store.require(stream).schema().fields}


@pytest.mark.extended
@pytest.mark.parametrize("stream", ["streams/numbers", "streams/tens"])
def test_the_streams_have_the_same_columns(runs, stream):
    on_spark, on_polars = runs
    assert columns(on_spark, stream) == columns(on_polars, stream)


def test_the_same_is_logged_and_decided(runs, states):
    told = "component, batch, kind, source_offset, attempt, emitted, consumed, reason IS NULL"
    logged = [query(f"SELECT {told} FROM e ORDER BY {told}", e=run.store.require("events")) for run in runs]
    assert logged[0] == logged[1]
    assert (
        states(runs[0])
        == states(runs[1])
        == [(1, 1, "acked"), (1, 2, "acked"), (2, 1, "acked"), (2, 2, "lost")]
    )

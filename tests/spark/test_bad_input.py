"""Sources that hold what nobody asked for: what can be read is processed, the rest fails with a reason."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as F

from acker.core.errors import BoltError
from acker.core.retry import ExponentialBackoff
from acker.operations.cycle import run_cycle
from acker.reports.audit import audit_report
from acker.spouts import DeltaSpout, FileSpout
from acker.topology.topology import Topology


def copied(place, spout) -> Topology:
    """Publishes each message as it is."""
    topology = Topology("copied", retry=ExponentialBackoff(limit=0))
    read = topology.spout("read", spout)
    same = topology.bolt(read, name="same")(lambda tuples: tuples)
    topology.publish(same, to=place.path("copy"))
    return topology


def results(run):
    """The audit's counts and the reasons of dead letters."""
    found = audit_report(run.topology, run.store)
    assert found.passed
    return found.acked, [letter.why for letter in found.dead_letters]


@pytest.mark.extended
def test_names_of_columns_are_names_and_no_sql(place):
    names = ["a.b", "it's", 'a"b', "a`b", "a`b.c", "--", "ü", "SELECT"]
    source = place.add("odd", id=[1, 2], **{name: ["x", None] for name in names})
    run = place.run(copied(place, DeltaSpout(source, key="id")))
    run_cycle(run)
    assert results(run) == (2, [])
    assert place.rows("copy") == [(1, *["x"] * len(names)), (2, *[None] * len(names))]


LINES = [
    b'{"id": 1}',
    b"",
    b"{",
    b"null",
    b"[]",
    b'"text"',
    b"12",
    b'{"id": "x"}',
    b'{"id": 99999999999999999999}',
    b'{"id": 2, "id": 3}',
    b'{"_corrupt": "x", "id": 4}',
    b'{"id": 5, "_kind": "lost", "_root_id": 1}',
    b'{"name": "\xff"}',
    b'{"name": "\\ud800"}',
    b'{"name": "a\\u0000b"}',
    b'{"name": "' + b"x" * 10_000_000 + b'"}',
    b"[" * 5_000,
    b'\xef\xbb\xbf{"id": 6}',
]


@pytest.mark.extended
def test_lines_of_json(place):
    folder = place.folder / "lines"
    folder.mkdir()
    (folder / "a.json").write_bytes(b"\n".join(LINES))
    run = place.run(copied(place, FileSpout(str(folder), format="json", schema="id bigint, name string")))
    run_cycle(run)
    acked, reasons = results(run)
    assert (acked, len(reasons)) == (5, 12)
    assert [row[0] for row in place.rows("copy")] == [1, 4, 5, None, None]
    assert all("not valid JSON for the schema: " in why or "not valid UTF-8" in why for why in reasons)


@pytest.mark.thorough
def test_types_that_delta_knows_are_read_whatever_their_fields_are_called(place):
    folder = place.folder / "types"
    folder.mkdir()
    table = pa.table(
        {
            "id": [1, 2],
            "nothing": pa.nulls(2),
            "pairs": pa.array([[("a", 1), ("a", 2)], None], pa.map_(pa.string(), pa.int64())),
            "nested": pa.array([{"a.b": {"d`e": [1]}}, None]),
            "far": pa.array([2**62, -(2**62)], pa.timestamp("us", "UTC")),
            "huge": pa.array([2**64 - 1, 0], pa.uint64()),
        }
    )
    pq.write_table(table, folder / "a.parquet")
    run = place.run(copied(place, FileSpout(str(folder), format="parquet")))
    read = run.topology.components["read"]
    run.topology.basic_bolt(read, schema="n int", name="plain")(lambda tup: [(tup.id,)])
    run_cycle(run)
    acked, reasons = results(run)
    assert acked == 0  # Python knows no such years, nor does its error stop the other bolt
    assert all("in plain: OverflowError" in why for why in reasons) and len(reasons) == 2


@pytest.mark.parametrize(
    ("table", "why"),
    [
        pytest.param(
            {"id": [1], "_kind": ["held"]}, "whose columns _kind have reserved names", id="reserved"
        ),
        pytest.param({"id": [1], "Anchor": [1]}, "whose columns Anchor have reserved names", id="anchor"),
        pytest.param({"id": [1], "ID": [1]}, "COLUMN_ALREADY_EXISTS", id="twice"),
        pytest.param({"a b": [1]}, "whose column 'a b' of type bigint no stream can have", id="space"),
        pytest.param(
            {"t": pa.array([1], pa.time64("us"))}, "that Spark refuses: [UNSUPPORTED_TIME", id="time"
        ),
        pytest.param(
            {"v": pa.array([1], pa.timestamp("ns"))}, "that Spark refuses: [PARQUET_TYPE", id="nanos"
        ),
    ],
)
def test_a_file_with_columns_that_no_stream_can_have_is_left_out_beside_others(place, table, why):
    folder = place.folder / "columns"
    folder.mkdir()
    pq.write_table(pa.table(table), folder / "a.parquet")
    pq.write_table(pa.table({"n": [1]}), folder / "b.parquet")
    run = place.run(copied(place, FileSpout(str(folder), format="parquet")))
    run_cycle(run)
    assert place.rows("copy") == [(1,)]
    (told,) = audit_report(run.topology, run.store).left_out["read"]
    assert why in told and told.endswith(" (a.parquet)")


@pytest.mark.extended
def test_a_type_that_the_log_cannot_read_is_refused_before_it_is_written(place):
    source = place.add("source", id=[1])
    topology = Topology("variants")
    read = topology.spout("read", DeltaSpout(source, key="id"))
    topology.bolt(read, name="parsed")(
        lambda tuples: tuples.select("anchor", F.parse_json(F.lit("[1]")).alias("v"))
    )
    run = place.run(topology)
    with pytest.raises(BoltError, match="parsed emits a column of type variant"):
        run_cycle(run)
    assert run.store.open("streams/parsed") is None


def test_a_file_that_is_no_parquet_is_left_out_and_read_once_it_is_one(place):
    folder = place.folder / "broken"
    folder.mkdir()
    (folder / "a.parquet").write_bytes(b"PAR1 but no more")
    run = place.run(copied(place, FileSpout(str(folder), format="parquet")))
    run_cycle(run)
    (told,) = audit_report(run.topology, run.store).left_out["read"]
    assert told.startswith("that are no Parquet: ") and told.endswith(" (a.parquet)")
    pq.write_table(pa.table({"id": [1]}), folder / "a.parquet")
    run_cycle(run)
    assert results(run) == (1, [])

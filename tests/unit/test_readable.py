"""What a dry run tells of messages that are gone from their source. Without Spark."""

import polars as pl
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from acker.core.snapshot.journal import Journal
from acker.core.store.store import Store
from acker.operations.selection.readable import Gone, gone_of
from acker.spouts import DeltaSpout, FileSpout, History
from acker.topology.topology import Topology


def after(*planned):
    return History(planned[-1] if planned else None, lambda: list(planned))


def positions(**offsets):
    rows = [(name, offset) for name, each in offsets.items() for offset in each]
    names, numbers = zip(*rows, strict=True)
    return pa.table({"source_partition": pa.array(names), "source_offset": pa.array(numbers, pa.int64())})


def entry(folder, name, lines):
    (folder / name).write_text("x\n" * lines)
    found = (folder / name).stat()
    mark = f"{found.st_size}:{found.st_mtime_ns // 1_000_000}"
    return {"path": name, "mark": mark, "after": 0, "upto": lines, "end": lines}


def test_messages_of_files_that_changed_or_vanished_are_gone_by_file(tmp_path):
    planned = {"files": [entry(tmp_path, name, 3) for name in "abc"]}
    (tmp_path / "a").write_text("other")
    (tmp_path / "b").unlink()
    found = FileSpout(str(tmp_path)).gone_of(positions(a=[1, 2], b=[3], c=[1]), after(planned))
    assert found == {"file changed or vanished: a": 2, "file changed or vanished: b": 1}


def test_messages_of_a_growing_file_that_was_truncated_are_gone_and_of_a_renamed_one_not(tmp_path):
    spout = FileSpout(str(tmp_path), grows=True)
    for name in "ab":
        (tmp_path / name).write_text("1\n2\n")
    planned = spout.next_range(None, after(), 9)
    (tmp_path / "a").write_text("1\n")
    (tmp_path / "b").rename(tmp_path / "b.1")
    assert spout.gone_of(positions(a=[1, 2], b=[1]), after(planned)) == {"file changed or vanished: a": 2}


def test_rows_that_a_table_has_no_more_are_gone_where_keys_tell_and_else_it_was_not_looked(tmp_path):
    path = str(tmp_path / "source")
    write_deltalake(path, pa.table({"id": [1, 2, 3, 4]}))
    by_key, by_id = DeltaSpout(path, key="id"), DeltaSpout(path)
    planned = by_key.next_range(None, after(), 9)
    DeltaTable(path).delete("id IN (2, 4)")
    chosen = {"0": [1, 2, 4]}
    assert by_key.gone_of(positions(**chosen), after(planned)) == {f"the row is no longer in {path}": 2}
    assert by_id.gone_of(positions(**chosen), after(planned)) is None


class Silent:
    def next_range(self, spark, history, limit):
        return None

    read_range = ends = read_positions = next_range


class Broken(Silent):
    def gone_of(self, positions, history):
        raise ValueError("no route")


@pytest.mark.parametrize(
    ("source", "why"),
    [
        (Silent(), "the spout has no method `gone_of`."),
        (Broken(), "ValueError: no route"),
        (DeltaSpout("nowhere", key="id"), "There is no Delta table at "),
    ],
    ids=["without", "broken", "away"],
)
def test_what_was_not_looked_at_is_said(tmp_path, source, why):
    topology = Topology("looked")
    topology.spout("numbers", source)
    store = Store(str(tmp_path), "looked")
    store.create()
    messages = pl.DataFrame({"spout": "numbers", "source_partition": "0", "source_offset": [1, 2]})
    found = gone_of(topology, Journal(store), messages)
    (said,) = found.sentences()
    assert said.startswith(f"Whether the 2 of numbers can be read was not checked: {why}")
    assert found.count == 0


def test_the_commonest_reasons_of_many_are_named():
    found = Gone(1_500, ("1,400 × gone from a", "100 × gone from b"))
    said = "1,500 of them are gone and would be lost: 1,400 × gone from a, 100 × gone from b."
    assert found.sentences() == [said]
    assert Gone().as_dict() == {}

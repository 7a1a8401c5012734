"""Which files of a stream are read for some of its batches."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, Schema

from acker.core.snapshot.snapshot import Snapshot
from acker.core.snapshot.streams import Rows
from acker.core.store.commits import batch_folder, commit_batch, files_below
from acker.core.store.schemas import STREAM_PROPERTIES
from acker.core.store.store import Store

ROWS = pa.schema(
    [("_batch", pa.int64()), ("_root_id", pa.int64()), ("_kind", pa.string()), ("_error", pa.string())]
)


@pytest.fixture
def store(tmp_path):
    found = Store(str(tmp_path / "50% of {a*} store?"), "s")
    found.create()
    return found


def write(store, batch, *roots):
    """A batch of the stream `numbers`, committed as one that Spark has written."""
    path, folder = store.path("streams/numbers"), batch_folder(batch)
    rows = [{"_batch": batch, "_root_id": root} for root in roots]
    Path(path, folder).mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist(rows, ROWS), f"{path}/{folder}/part-{batch}.parquet")
    commit_batch(path, files_below(path, folder), Schema.from_arrow(ROWS), "numbers", batch)


def roots(store, batches):
    rows = Rows.of(Snapshot(store), "numbers", batches)
    return len(rows.files), rows.batches is None, sorted(rows.scan().collect()["_root_id"])


def test_the_files_are_those_of_the_batches_and_need_no_condition(store):
    for batch in range(1, 5):
        write(store, batch, batch * 10)
    write(store, 5)
    assert roots(store, [1, 3, 5]) == (2, True, [10, 30])
    assert roots(store, [5]) == roots(store, []) == (0, True, [])


def test_of_files_that_were_rewritten_the_rows_are_looked_at(store):
    for batch in range(1, 4):
        write(store, batch, batch * 10)
    store.require("streams/numbers").optimize.compact()
    write(store, 4, 40)
    assert roots(store, [1, 3, 4])[2] == [10, 30, 40]
    assert roots(store, [4]) == (1, True, [40])


def test_thousands_of_batches_that_do_not_follow_each_other_are_no_text_of_a_query(store):
    path, batches = store.path("streams/numbers"), range(1, 20_000, 2)
    DeltaTable.create(path, ROWS, configuration=STREAM_PROPERTIES)
    write(store, 1, 10)
    assert roots(store, batches) == (1, True, [10])
    write(store, 2, 20)
    store.require("streams/numbers").optimize.compact()
    assert roots(store, batches) == (1, False, [10])

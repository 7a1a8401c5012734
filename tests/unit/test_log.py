"""The log of a batch without Spark."""

from datetime import UTC, datetime

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from acker.batches import log
from acker.batches.log import LogRequest, run_log
from acker.core.errors import StoreError
from acker.core.snapshot.snapshot import Snapshot
from acker.core.store.checksums import batch_row, checksum_of_batch
from acker.core.store.commits import commit_rows
from acker.core.store.parquet import columns_of
from acker.core.store.schemas import EVENTS, stream
from acker.core.store.store import Store
from acker.core.store.tables import arrow_table, query

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SPOUTS = LogRequest("numbers", 1, ["words"], None, NOW)


@pytest.fixture
def read(store_uri: str) -> Store:
    """A store whose spout `numbers` has read five messages, of which the fourth was lost."""
    store = Store(store_uri, "numbers")
    store.create()
    rows = pa.table(
        {
            "_root_id": [11, 12, 13, 14, 15],
            "_batch": [1] * 5,
            "_kind": pa.array([None, None, None, "lost", None], pa.string()),
            "_error": pa.array([None, None, None, "gone", None], pa.string()),
            "_source_partition": ["0"] * 5,
            "_source_offset": [1, 2, 3, 4, 5],
            "_attempt": pa.array([1] * 5, pa.int32()),
            "_replaces": pa.array([None] * 5, pa.int64()),
        }
    )
    table = DeltaTable.create(store.path(stream("numbers")), rows.schema)
    commit_rows(table, rows, "numbers", 1)
    return store


def test_many_events_go_into_files_side_by_side_of_which_the_log_tells_bounds(
    read: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "ROWS_OF_A_FILE", 3)
    run_log(Snapshot(read), SPOUTS)
    events = read.require(EVENTS)
    files = pl.DataFrame(arrow_table(events.get_add_actions(flatten=True)))
    told = ("num_records", "min.kind", "max.kind", "null_count.kind", "min.batch", "max.batch")
    assert sorted(files.select(*told, "min.component").rows()) == [
        (2, "init", "lost", 0, 1, 1, "numbers"),
        (4, "batch", "init", 0, 1, 1, "numbers"),
    ]
    found = query("SELECT root_id, kind, reason, source_offset FROM events ORDER BY root_id", events=events)
    assert [tuple(row.values()) for row in found] == [
        (11, "init", None, 1),
        (12, "init", None, 2),
        (13, "init", None, 3),
        (14, "lost", "gone", 4),
        (15, "init", None, 5),
        (None, "batch", None, None),
    ]


def test_a_file_has_no_column_without_a_value_and_tells_no_bounds_of_ids(read: Store) -> None:
    run_log(Snapshot(read), SPOUTS)
    (file,) = read.require(EVENTS).file_uris()
    group = pq.read_metadata(file).row_group(0)
    bounds = {}
    for column in map(group.column, range(group.num_columns)):
        told = column.statistics
        bounds[column.path_in_schema] = (told.min, told.max) if told else None
    assert {"root_id": None, "ack_val": None, "batch": (1, 1)}.items() <= bounds.items()
    assert {"replaces", "joined"}.isdisjoint(bounds)


def test_of_two_that_log_a_batch_at_once_one_does(read: Store) -> None:
    both = [Snapshot(read), Snapshot(read)]
    assert [snapshot.require(EVENTS).version() for snapshot in both] == [0, 0]
    for snapshot in both:
        run_log(snapshot, SPOUTS)
    assert query("SELECT count(*) AS n FROM events", events=read.require(EVENTS)) == [{"n": 6}]


def test_a_batch_that_nobody_wrote_acks_nothing(store_uri: str) -> None:
    store = Store(store_uri, "numbers")
    store.create()
    request = LogRequest("words", 1, (), {"numbers": [1]}, NOW)
    with pytest.raises(StoreError, match=r"There is no table .*/streams/words"):
        run_log(Snapshot(store), request)
    assert store.last_number(EVENTS, "words") == 0


def test_a_batch_without_events_is_sealed_all_the_same() -> None:
    nothing = pl.DataFrame(schema=columns_of(EVENTS))
    (row,) = batch_row(checksum_of_batch(nothing), "words", 1, 0, NOW).to_dicts()
    assert (row["kind"], row["batch"], row["ack_val"]) == ("batch", 1, 0)

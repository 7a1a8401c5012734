"""Tables that two make at the same moment: one makes each, and what comes with it is there once."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import polars as pl
import pyarrow as pa
from deltalake import Schema

from acker.core.snapshot.kept import keep_rows, kept, nothing_gone
from acker.core.store.commits import commit_batch, write_file
from acker.core.store.schemas import SCHEMAS, stream
from acker.core.store.store import Store
from acker.core.store.tables import query
from acker.targets.by_key import ByKey, keep, trimmed
from acker.targets.functions import Count

AT_ONCE = 2
ROUNDS = 20
ROWS = pa.table({"_batch": [1], "_root_id": [10]})


def test_a_stream_is_made_once_with_its_first_batch(tmp_path: Path) -> None:
    for number in range(ROUNDS):
        store, barrier = Store(str(tmp_path), f"s{number}"), Barrier(AT_ONCE)
        path = store.path(stream("numbers"))
        Path(path).mkdir(parents=True)

        def write(_: int, path: str = path, barrier: Barrier = barrier) -> None:
            file = write_file(path, ROWS)
            barrier.wait()
            commit_batch(path, [file], Schema.from_arrow(ROWS.schema), "numbers", 1)

        with ThreadPoolExecutor(AT_ONCE) as pool:
            assert [*pool.map(write, range(AT_ONCE))] == [None] * AT_ONCE
        table = store.require(stream("numbers"))
        assert query("SELECT * FROM t", t=table) == ROWS.to_pylist()
        assert table.version() == 0


def test_what_a_trimming_takes_is_kept_once(tmp_path: Path) -> None:
    by = ByKey(("k",), {"n": Count()})
    rows = pl.DataFrame({"k": ["x", "y"], "n": [1, 2], "_tuples": [1, 2]}).select(by.columns)
    for number in range(ROUNDS):
        store, barrier = Store(str(tmp_path), f"s{number}"), Barrier(AT_ONCE)

        def take(_: int, store: Store = store, barrier: Barrier = barrier) -> None:
            barrier.wait()
            keep_rows(store, "doubled", nothing_gone(), 2)
            keep(store, "summed", by, rows, 0, 2)

        with ThreadPoolExecutor(AT_ONCE) as pool:
            assert [*pool.map(take, range(AT_ONCE))] == [None] * AT_ONCE
        found = [
            (name, store.require(name).to_pyarrow_table().num_rows)
            for name in (kept("doubled"), trimmed("summed"))
        ]
        assert found == [(kept("doubled"), 1), (trimmed("summed"), 2)]
        assert store.require(trimmed("summed")).version() == 0


def test_the_tables_of_a_store_are_made_once(tmp_path: Path) -> None:
    for number in range(ROUNDS):
        store, barrier = Store(str(tmp_path), f"s{number}"), Barrier(AT_ONCE)

        def create(_: int, store: Store = store, barrier: Barrier = barrier) -> None:
            barrier.wait()
            store.create()

        with ThreadPoolExecutor(AT_ONCE) as pool:
            assert [*pool.map(create, range(AT_ONCE))] == [None] * AT_ONCE
        assert {store.require(table).version() for table in SCHEMAS} == {0}

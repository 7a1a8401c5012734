"""Clients that make a table at the same moment: it is made once, with one's first batch."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Barrier

import pyarrow as pa
from deltalake import Schema

from acker.core.commits import commit_batch, write_file
from acker.core.delta import Store, open_table, query
from acker.core.schemas import SCHEMAS, STREAM_PROPERTIES

CLIENTS = 3
TABLES = 20
ROWS = pa.table({"_batch": [1, 1], "number": [7, 8]})


def at_once(work):
    """What each client is told, or why it is not."""
    barrier = Barrier(CLIENTS)

    def one(number):
        barrier.wait()
        return work(number)

    with ThreadPoolExecutor(CLIENTS) as pool:
        return list(pool.map(one, range(CLIENTS)))


def test_a_first_batch_goes_in_once(tmp_path):
    for number in range(TABLES):
        path = str(tmp_path / str(number))
        (tmp_path / str(number)).mkdir()
        files = [[write_file(path, ROWS)] for _ in range(CLIENTS)]
        at_once(partial(commit_first, path, files))
        table = open_table(path)
        assert query("SELECT number FROM t ORDER BY number", t=table) == [{"number": 7}, {"number": 8}]
        assert table.version() == 0
        assert table.metadata().configuration == STREAM_PROPERTIES


def commit_first(path, files, client):
    commit_batch(path, files[client], Schema.from_arrow(ROWS.schema), "numbers", 1)


def test_the_tables_of_a_store_are_made_once(tmp_path):
    store = Store(str(tmp_path), "numbers")
    at_once(lambda client: store.create())
    assert [store.require(name).version() for name in SCHEMAS] == [0] * len(SCHEMAS)

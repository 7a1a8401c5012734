"""Errors say what they speak of, in a sentence and by itself."""

import copy
import pickle
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from acker.core.errors import AckerError, BoltError, StoreError
from acker.core.store.schemas import BATCHES, EVENTS, LEDGER
from acker.core.store.store import Store
from acker.core.store.tables import open_table, path_of, query


@pytest.fixture
def store(tmp_path):
    made = Store(str(tmp_path / "with space, 100%"), "shop")
    made.create()
    return made


def test_an_error_of_a_damaged_table_names_it(store):
    (log,) = Path(store.path(LEDGER), "_delta_log").glob("*.json")
    log.write_text("{")
    with pytest.raises(StoreError, match=r"^The Delta table .* cannot be read: ") as refused:
        store.open(LEDGER)
    assert (refused.value.table, refused.value.component) == (store.path(LEDGER), None)


def test_an_error_of_data_that_cannot_be_read_names_its_table(store):
    rows = pa.table({"component": ["a"]})
    write_deltalake(store.path("streams/a"), rows)
    (file,) = Path(store.path("streams/a")).glob("*.parquet")
    file.write_bytes(b"damaged")
    with pytest.raises(StoreError, match=r"^The data of .* cannot be read: ") as refused:
        query("SELECT * FROM a", a=store.require("streams/a"))
    assert refused.value.table == store.path("streams/a")


def test_an_error_of_altered_columns_names_its_table(store):
    write_deltalake(store.path(EVENTS), pa.table({"x": [1]}), mode="overwrite", schema_mode="overwrite")
    with pytest.raises(StoreError, match="are not those that it was made with") as refused:
        store.require(EVENTS)
    assert refused.value.table == store.path(EVENTS)


def test_a_table_is_found_where_it_is_said_to_be(store):
    table = store.require(BATCHES)
    assert path_of(table) == store.path(BATCHES)
    assert open_table(path_of(table)) is not None


@pytest.mark.parametrize("copied", [copy.copy, lambda error: pickle.loads(pickle.dumps(error))])
def test_an_error_is_the_same_in_another_process(copied):
    error = copied(BoltError("Bolt a raised.", component="a", batch=3))
    assert isinstance(error, AckerError)
    assert (str(error), error.component, error.batch, error.table) == ("Bolt a raised.", "a", 3, None)

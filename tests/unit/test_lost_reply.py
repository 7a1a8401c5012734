"""A commit of which only an error is heard although it went in."""

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, write_deltalake

from acker.core.store.schemas import SCHEMAS, TRIMS
from acker.core.store.store import Store
from acker.core.store.tables import append_rows, commit_once

TRIM = pa.Table.from_pylist([{"trim": 1}], SCHEMAS[TRIMS].arrow())


@pytest.fixture
def store(store_uri: str) -> Store:
    found = Store(store_uri, "numbers")
    found.create()
    return found


def test_a_commit_whose_reply_is_lost_is_known_as_ones_own(store: Store) -> None:
    ours, others = store.require(TRIMS), store.require(TRIMS)

    def commit(table: DeltaTable | None, once: CommitProperties) -> None:
        write_deltalake(store.path(TRIMS), TRIM, mode="append", commit_properties=once)
        raise OSError("the reply is lost")

    assert commit_once(ours, {"app": 1}, commit)
    assert not append_rows(others, TRIM, "app", 1)
    assert (ours.version(), others.version()) == (1, 0)

"""Handles of tables that are used again: each in one pair of hands, at the newest version of its table."""

import pickle
import shutil
from pathlib import Path

import pytest
from deltalake import DeltaTable

from acker.core.snapshot.snapshot import Snapshot
from acker.core.store.schemas import BATCHES, SCHEMAS
from acker.core.store.store import Store
from acker.core.store.tables import append_rows, last_number

NO_ROWS = SCHEMAS[BATCHES].arrow().empty_table()


@pytest.fixture
def store(tmp_path: Path) -> Store:
    made = Store(str(tmp_path), "numbers")
    made.create()
    return made


def append(store: Store, number: int) -> None:
    assert append_rows(store.require(BATCHES), NO_ROWS, "numbers", number)


def test_a_handle_that_nobody_has_any_more_is_used_again_at_the_newest_version(store):
    first = store.require(BATCHES)
    place = id(first)
    del first
    append(Store(store.uri, store.topology), 1)  # as another process does it
    again = store.require(BATCHES)
    assert (id(again), again.version(), last_number(again, "numbers")) == (place, 1, 1)


def test_a_snapshot_stays_as_it_is_although_others_are_taken_and_go(store):
    before = Snapshot(store)
    for number in (1, 2):
        append(store, number)
        assert (before.planned("numbers"), before.require(BATCHES).version()) == (0, 0)
        assert Snapshot(store).planned("numbers") == number


def test_the_numbers_of_own_commits_and_of_others_are_told(store):
    table = store.require(BATCHES)
    assert last_number(table, "numbers") == 0
    assert append_rows(table, NO_ROWS, "numbers", 1)
    assert append_rows(table, NO_ROWS, "others", 5)
    append(Store(store.uri, store.topology), 2)
    assert append_rows(table, NO_ROWS, "others", 6)  # after the other's commit
    assert [last_number(table, app) for app in ("numbers", "others")] == [2, 6]


def test_a_table_that_was_put_back_is_opened_anew(store, tmp_path):
    copy = tmp_path / "copy"
    append(store, 1)
    shutil.copytree(store.path(BATCHES), copy)
    append(store, 2)
    shutil.rmtree(store.path(BATCHES))
    shutil.copytree(copy, store.path(BATCHES))
    assert Snapshot(store).planned("numbers") == 1


def test_a_table_that_was_put_back_and_went_on_is_opened_anew(store, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(store.path(BATCHES), copy)
    append(store, 1)
    shutil.rmtree(store.path(BATCHES))
    shutil.copytree(copy, store.path(BATCHES))
    append(Store(store.uri, store.topology), 7)  # as another process does it: the same version again
    table = store.require(BATCHES)
    assert (table.version(), last_number(table, "numbers")) == (1, 7)


def test_a_table_that_was_made_anew_is_opened_anew(store):
    append(store, 1)
    before = store.require(BATCHES).metadata().id
    shutil.rmtree(store.path(BATCHES))
    Store(store.uri, store.topology).create()
    for number in (7, 8):
        append(Store(store.uri, store.topology), number)
    table, fresh = store.require(BATCHES), DeltaTable(store.path(BATCHES))
    assert (table.metadata().id, table.version()) == (fresh.metadata().id, fresh.version())
    assert table.metadata().id != before


def test_a_table_that_was_removed_is_not_there(store):
    append(store, 1)
    shutil.rmtree(store.path(BATCHES))
    assert store.open(BATCHES) is None


def test_another_process_has_handles_of_its_own(store):
    assert pickle.loads(pickle.dumps(store)) == store

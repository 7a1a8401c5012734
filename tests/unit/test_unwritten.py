"""What is told where a folder cannot be written: one sentence that names it, and what to do."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest

from acker.core.errors import ServerError, StoreError
from acker.core.store.schemas import SCHEMAS
from acker.core.store.store import Store
from acker.core.store.tables import append_rows
from acker.runtime.server import process as server
from acker.runtime.settings import Settings

NOBODY = 65534
REMEDY = "or set PIPELINE_HOME or PIPELINE_STORE to a folder of yours, and run the command again."


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that every user can reach, unlike pytest's own."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """This process can read a folder and not write it. Root, whom no mode stops, works as nobody."""
    folders = [folder, *(each for each in folder.rglob("*") if each.is_dir())]
    for each in folders:
        each.chmod(0o555)
    user = os.geteuid()
    if user == 0:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(user)
        for each in folders:
            each.chmod(0o755)


def test_a_store_that_cannot_be_created_is_named_with_what_to_do(folder):
    with read_only(folder), pytest.raises(StoreError) as raised:
        Store(str(folder / "store"), "shop").create()
    assert str(raised.value) == (
        f"The table {folder}/store/shop/batches cannot be written: Permission denied. "
        f"Give this user the right to write there, {REMEDY}"
    )


def test_a_file_in_the_way_of_a_store_is_told(folder):
    (folder / "file").touch()
    with pytest.raises(StoreError) as raised:
        Store(str(folder / "file" / "store"), "shop").create()
    assert str(raised.value) == (
        f"The table {folder}/file/store/shop/batches cannot be written: Not a directory. Mend that, {REMEDY}"
    )


def test_a_table_that_cannot_be_appended_to_is_named_with_what_to_do(folder):
    store = Store(str(folder), "shop")
    store.create()
    table = store.require("replay_requests")
    rows = pa.schema(SCHEMAS["replay_requests"].arrow()).empty_table()
    with read_only(folder), pytest.raises(StoreError) as raised:
        append_rows(table, rows, "request", 1)
    assert str(raised.value) == (
        f"The table {folder}/shop/replay_requests cannot be written: Permission denied. "
        f"Give this user the right to write there, {REMEDY}"
    )
    assert raised.value.table == f"{folder}/shop/replay_requests"


def test_a_home_that_cannot_be_written_is_named_with_what_to_do(folder):
    settings = Settings.from_env({"PIPELINE_HOME": str(folder / "home")})
    with read_only(folder), pytest.raises(ServerError) as raised:
        server.start(settings)
    assert str(raised.value) == (
        f"{folder}/home/server cannot be written (Permission denied). Set PIPELINE_HOME to a folder of yours."
    )

"""Commits that an S3 server did and whose replies were lost on the way: they are known as one's own."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import Schema, write_deltalake

from acker.batches.run import Run
from acker.core.store.commits import commit_batch, write_file
from acker.core.store.schemas import BATCHES, EVENTS, LEDGER, SCHEMAS, TRIMS, stream
from acker.core.store.store import Store
from acker.core.store.tables import append_new, append_rows, query
from acker.operations.cycle import run_cycle
from tests.kit.object_store import BUCKET, running_object_store
from tests.kit.places import states
from tests.kit.polars_topology import NoSpark, PolarsTopology, TableSource
from tests.kit.proxies import Proxy, running_proxy

ROWS = pa.table({"_batch": [1], "_root_id": [10]})
TRIM = pa.Table.from_pylist([{"trim": 1}], SCHEMAS[TRIMS].arrow())


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    """A proxy in front of a server, which clients find."""
    with (
        running_object_store(tmp_path_factory.mktemp("s3")) as variables,
        running_proxy(variables["AWS_ENDPOINT_URL"]) as found,
        pytest.MonkeyPatch.context() as patch,
    ):
        for name, value in {**variables, "AWS_ENDPOINT_URL": found.address}.items():
            patch.setenv(name, value)
        yield found


@pytest.fixture
def store(proxy: Proxy, tmp_path: Path) -> Store:
    store = Store(f"s3a://{BUCKET}/{tmp_path.name}", "numbers")
    store.create()
    return store


def lose(proxy: Proxy, store: Store, table: str, version: int) -> str:
    """Lose the reply to the commit of a version of a table, and return what `take_lost` is to say then."""
    path = f"{store.path(table).removeprefix('s3a:/')}/_delta_log/{version:020}.json"
    proxy.lose_reply("PUT", path)
    return path


@pytest.mark.extended
@pytest.mark.parametrize("table", [BATCHES, EVENTS, LEDGER])
def test_a_cycle_goes_on_and_tells_of_its_fold(
    table: str, store: Store, proxy: Proxy, tmp_path: Path
) -> None:
    write_deltalake(str(tmp_path / "source"), pa.table({"id": [1, 2]}))
    topology, heard = PolarsTopology("numbers"), []
    topology.spout("numbers", TableSource(str(tmp_path / "source")))
    topology.on_ack(lambda notice: heard.append((notice.fold, notice.count)))
    topology.validate()
    run = Run(topology, store, NoSpark)
    lost = lose(proxy, store, table, version=1)
    run_cycle(run)
    assert proxy.take_lost() == [lost]
    assert states(run) == [(1, 1, "acked"), (2, 1, "acked")]
    assert heard == [(1, 2)]
    assert [store.require(each).version() for each in (BATCHES, EVENTS, LEDGER)] == [1, 1, 1]


@pytest.mark.extended
def test_a_stream_is_made_and_added_to_once(store: Store, proxy: Proxy) -> None:
    path, table = store.path(stream("numbers")), stream("numbers")
    for batch in (1, 2):
        lost = lose(proxy, store, table, version=batch - 1)
        commit_batch(path, [write_file(path, ROWS)], Schema.from_arrow(ROWS.schema), "numbers", batch)
        assert proxy.take_lost() == [lost]
    found = store.require(table)
    assert query("SELECT * FROM t", t=found) == ROWS.to_pylist() * 2
    assert found.metadata().configuration["delta.checkpointInterval"] == "10"
    assert found.version() == 1


@pytest.mark.extended
def test_who_appends_a_number_knows_that_it_is_there_and_whose_it_is(store: Store, proxy: Proxy) -> None:
    ours, others = store.require(TRIMS), store.require(TRIMS)
    lost = lose(proxy, store, TRIMS, version=1)
    assert append_rows(ours, TRIM, "app", 1)
    assert proxy.take_lost() == [lost]
    assert not append_rows(others, TRIM, "app", 1)
    assert query('SELECT "trim" FROM t', t=store.require(TRIMS)) == [{"trim": 1}]


@pytest.mark.extended
def test_rows_without_a_number_are_there_once(store: Store, proxy: Proxy) -> None:
    lost = lose(proxy, store, TRIMS, version=1)
    append_new(store.require(TRIMS), TRIM)
    assert proxy.take_lost() == [lost]
    assert query('SELECT "trim" FROM t', t=store.require(TRIMS)) == [{"trim": 1}]


@pytest.mark.extended
def test_a_store_is_made_once(store: Store, proxy: Proxy) -> None:
    further = Store(store.uri, "further")
    lost = lose(proxy, further, LEDGER, version=0)
    further.create()
    assert proxy.take_lost() == [lost]
    assert {further.require(table).version() for table in SCHEMAS} == {0}

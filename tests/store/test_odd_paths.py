"""Folders with odd names, wherever one is asked for: they serve, or are refused in one sentence."""

import unicodedata
from pathlib import Path

import polars as pl
import pytest

from acker.batches.run import Run
from acker.core.errors import AckerError, StoreError
from acker.core.store.lease import Lease
from acker.core.store.store import Store
from acker.core.store.tables import history
from acker.operations.cycle import run_cycle
from acker.operations.maintenance import upkeep
from acker.operations.maintenance.backup import back_up, store_in, topology_in
from acker.operations.maintenance.compact import compact, vacuum
from acker.operations.maintenance.restore import move, restore
from acker.reports.audit import audit_report
from acker.runtime.settings import Settings
from acker.spouts import DeltaSpout
from acker.topology.topology import Topology
from tests.kit.polars_topology import PolarsTopology, TableSource, acked

SERVE = [
    *("%", "50%", "%zz", "a*b?", "{a,b}", 'it\'s "a"`b`', "a#b?c=d&e+f;g,h@i", "$HOME", "~x", "-x", " a "),
    *("<a>", "a:b", "file:", "s3:x", ".hidden", "_under", "日本", "😀", "n" * 250),
    *(unicodedata.normalize(form, "wörds") for form in ("NFC", "NFD")),
]
REFUSED = ["a%41", "50%25", "a%2fb", "a\\b", "line\nfeed", "a\tb", "a\x7fb", "[ab]", "a]", "a|b", "a^b"]
TOO_LONG = "n" * 300


@pytest.fixture
def run(place):
    topology = PolarsTopology("kept", message_timeout=None)
    numbers = topology.spout("numbers", TableSource(place.add("numbers", id=[1, 2])))
    topology.bolt(numbers, name="doubled")(lambda tuples: tuples.with_columns(pl.col("id") * 2))
    return place.run(topology)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[] if number < 2 else pytest.mark.extended)
        for number, name in enumerate(SERVE)
    ],
    ids=ascii,
)
def test_a_store_and_its_copies_may_have_odd_names(place, run, name):
    store = Store(place.path(f"stores/{name}"), "kept")
    store.create()
    odd = Run(run.topology, store, run.connect, clock=run.clock)
    run_cycle(odd)
    compact(odd)
    vacuum(odd, 24)
    backup, there = place.path(f"backups/{name}"), Store(place.path(f"restored/{name}"), "kept")
    back_up(run.topology, store, backup, run.clock).write(backup)
    assert audit_report(topology_in(backup, run.topology), store_in(backup, run.topology)).passed
    restore(run.topology, there, backup, run.clock)[1].release()
    moved, finish = move(run.topology, store, place.path(f"moved/{name}"), run.clock, is_stopped=True)
    finish()
    for each in (there, moved):
        assert acked(Run(run.topology, each, run.connect, clock=run.clock), "doubled") == [(2,), (4,)]
    for folder in ("stores", "backups", "restored", "moved"):
        assert [found.name for found in Path(place.path(folder)).iterdir()] == [name]


def published(place, to):
    topology = Topology("kept")
    topology.publish(topology.spout("numbers", DeltaSpout(place.path("numbers"), key="id")), to=to)
    return topology


USES = {
    "home": lambda place, run, path: Settings.from_env({"PIPELINE_HOME": path}),
    "store": lambda place, run, path: Settings.from_env({"PIPELINE_STORE": path}),
    "store by its URI": lambda place, run, path: Settings.from_env({"PIPELINE_STORE": f"file://{path}"}),
    "table of a store": lambda place, run, path: Store(path, "kept").create(),
    "source": lambda place, run, path: DeltaSpout(path, key="id").message_schema(None),
    "target": lambda place, run, path: published(place, path).publications["numbers"].target.delta_table(),
    "backup": lambda place, run, path: back_up(run.topology, run.store, path, run.clock),
    "restore": lambda place, run, path: restore(run.topology, Store(path, "kept"), path, run.clock),
    "move": lambda place, run, path: move(run.topology, run.store, path, run.clock, is_stopped=True),
}


@pytest.mark.parametrize(
    ("use", "name"),
    [
        pytest.param(use, name, id=f"{use}-{name[:9]!a}")
        for use in USES
        for name in [*REFUSED, TOO_LONG]
        if not (use == "source" and set(name) & set("[]|^"))  # such a table can be read
    ],
)
def test_what_cannot_serve_is_refused_in_one_sentence_before_anything_is_made(place, run, use, name):
    with pytest.raises(AckerError) as refused:
        USES[use](place, run, place.path(f"below/{name}"))
    assert str(refused.value).isprintable()
    assert not Path(place.path("below")).exists()


@pytest.mark.parametrize("name", ["a*b?", "a#b?c=d&e+f;g,h@i", "plain"], ids=ascii)
def test_the_history_of_a_table_is_told_wherever_it_is(place, name):
    store = Store(place.path(f"stores/{name}"), "kept")
    store.create()
    upkeep.note(store, "audit")
    assert [each["version"] for each in history(store.require("upkeep"), 5)] == [1, 0]
    lease = Lease(store, "one", place.clock)
    lease.hold()
    assert lease.read().holder == "one"
    with pytest.raises(StoreError, match="The deployment one works on"):
        Lease(store, "another", place.clock).hold()

"""A small store for fuzzing: two files' messages of which one is acked, one dead, one pending. No Spark."""

import shutil
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl

from acker.batches.run import Run
from acker.core.snapshot.inputs import SourceRange, Span, Spans
from acker.core.snapshot.journal import Journal
from acker.core.snapshot.planned import Batch
from acker.core.store.checksums import batch_row, checksum_of_batch
from acker.core.store.parquet import columns_of
from acker.core.store.schemas import EVENTS
from acker.core.store.store import Store
from acker.core.store.tables import append_rows
from acker.operations.fold import fold
from acker.runtime.registry import load_topology
from acker.runtime.settings import Settings

NOW = datetime(2026, 1, 1, tzinfo=UTC)
ODD = "a[/b]'\x1b[31m.json"  # a file's name: markup, a quote, a terminal's command
REASON = "bad [/x]\x1b]0;owned\x07\nverdict: pass"
TOPOLOGY = '''
"""A [bold]shop[/x]."""
from acker import ExponentialBackoff
from acker import FileSpout
from acker import Topology

topology = Topology("shop", retry=ExponentialBackoff(limit=0))
orders = topology.spout("orders", FileSpout("orders", glob="*[/b].json"))

@topology.bolt(orders)
def items(tuples):
    """Takes [/red] orders."""
    return tuples
'''
SEALED = {"PIPELINE_TOPOLOGIES": "shop:topology", "SPARK_REMOTE": "sc://127.0.0.1:9"}


@dataclass(frozen=True)
class Shop:
    """A run of the topology in a folder, and the environment of commands for it."""

    run: Run
    environ: dict[str, str]


def shop(folder: Path) -> Shop:
    """The store after its first batches were logged, and not folded. `folder` must be on the path."""
    (folder / "shop.py").write_text(TOPOLOGY)
    environ = {"PIPELINE_HOME": str(folder / "home"), **SEALED}
    settings = Settings.from_env(environ)
    store = Store(settings.store, "shop")
    store.create()
    run = Run(load_topology("shop", settings), store, no_spark, clock=lambda: NOW)
    files = [{"path": ODD, "mark": "1:1", "after": 0, "upto": 3, "end": 3}]
    Journal(store).append(Batch("orders", 1, "next", SourceRange({"files": files}), ("items",), NOW, "run"))
    Journal(store).append(Batch("items", 1, "next", Spans({"orders": Span(0, 1)}), (), NOW, "run"))
    log(store, "orders", 1, [event(root, "init", emitted=1) for root in (1, 2, 3)], is_sealed=True)
    log(store, "items", 1, [event(1, "ack"), event(2, "fail", reason=REASON)], is_sealed=True)
    return Shop(run, environ)


def copy(found: Shop, folder: Path) -> Run:
    """A run of the same topology on a copy of its store, which takes milliseconds."""
    store = Store(str(folder / "store"), found.run.store.topology)
    shutil.copytree(found.run.store.path(""), store.path(""))
    return Run(found.run.topology, store, no_spark, clock=lambda: NOW)


def no_spark() -> Any:
    raise AssertionError("it needs no Spark")


def event(root: int, kind: str, emitted: int = 0, **columns: Any) -> dict[str, Any]:
    """An event as a batch logs it."""
    component = "orders" if kind == "init" else "items"
    found = {"root_id": root, "kind": kind, "ack_val": root, "emitted": emitted, "consumed": 1 - emitted}
    found |= {"component": component, "batch": 1, "logged_at": NOW}
    if kind == "init":
        found |= {"spout": "orders", "source_partition": ODD, "source_offset": root, "attempt": 1}
    return found | columns


def log(store: Store, app: str, number: int, rows: list[dict[str, Any]], is_sealed: bool = False) -> None:
    """Append events as the log of a batch, or unsealed and under another name as somebody does by hand."""
    found = pl.DataFrame(rows, columns_of(EVENTS))
    seal = batch_row(checksum_of_batch(found), app, number, 0, NOW)
    sealed = pl.concat([seal, found]) if is_sealed else found
    append_rows(store.require(EVENTS), sealed, app, number)


def folded(folder: Path) -> Shop:
    """The store after its first fold."""
    found = shop(folder)
    fold(found.run)
    return found

"""A store in which messages of two files failed for several reasons, with their source rows. No Spark."""

from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import write_deltalake

from acker.batches.run import Run
from acker.core.snapshot.inputs import SourceRange, Span, Spans
from acker.core.snapshot.journal import Journal
from acker.core.snapshot.planned import Batch
from acker.core.store.schemas import stream
from acker.core.store.store import Store
from acker.operations.fold import fold
from acker.runtime.registry import load_topology
from acker.runtime.settings import Settings
from tests.unit.fuzzed import NOW, log, no_spark

TOPOLOGY = '''
"""Sales of a shop.

Two files, two bolts.
"""
from acker import Count, ExponentialBackoff, FileSpout, Topology

topology = Topology("sales", retry=ExponentialBackoff(initial_seconds=60, limit=1))
orders = topology.spout("orders", FileSpout("orders", format="json", schema="id bigint, item string"))

@topology.bolt(orders)
def priced(tuples):
    return tuples

@topology.bolt(priced)
def sold(tuples):
    return tuples

topology.publish(sold, to="sold", by="item", aggregates={"n": Count()})
topology.publish(priced, to="priced")
'''
MONDAY, TUESDAY = "2026-01-05.json", "2026-01-06.json"
ITEMS = ["tea", "wine", "wine", "cake", "milk"]  # by offset, of each file


def sales(folder: Path) -> Run:
    """Two folds: of Monday's five messages and of Tuesday's. `folder` must be on the path.

    Of each file 1 is acked, 2 and 3 failed in `priced`, 4 in `sold`, and 5 is in flight. A failure is tried
    again a minute after the fold.
    """
    (folder / "sales.py").write_text(TOPOLOGY)
    settings = Settings.from_env({"PIPELINE_HOME": str(folder / "home")})
    store = Store(settings.store, "sales")
    store.create()
    run = Run(load_topology("sales:topology", settings), store, no_spark, clock=lambda: NOW)
    for number, file in enumerate((MONDAY, TUESDAY), start=1):
        _read(store, number, file)
        for bolt, taken in (("priced", "orders"), ("sold", "priced")):
            planned = Spans({taken: Span(number - 1, number)})
            edges = ("sold",) if bolt == "priced" else ()
            Journal(store).append(Batch(bolt, number, "next", planned, edges, NOW, "run"))
        first = 10 * number
        acks = [_event("priced", number, first + offset, "ack", emitted=1) for offset in (4, 5)]
        acks.append(_event("priced", number, first + 1, "ack"))
        wine = [
            _event("priced", number, first + offset, "fail", reason="no price\nof wine") for offset in (2, 3)
        ]
        log(store, "priced", number, acks + wine, is_sealed=True)
        cake = _event("sold", number, first + 4, "fail", reason="out of cake")
        log(store, "sold", number, [cake], is_sealed=True)
        fold(run)
    return run


def _read(store: Store, number: int, file: str) -> None:
    """A batch of the spout: planned, written and logged."""
    files = [{"path": file, "mark": "1:1", "after": 0, "upto": 5, "end": 5}]
    Journal(store).append(
        Batch("orders", number, "next", SourceRange({"files": files}), ("priced",), NOW, "run")
    )
    offsets = range(1, 6)
    rows = {
        "_batch": [number] * 5,
        "_root_id": [10 * number + offset for offset in offsets],
        "_kind": pa.array([None] * 5, pa.string()),
        "_error": pa.array([None] * 5, pa.string()),
        "_source_partition": [file] * 5,
        "_source_offset": list(offsets),
        "_attempt": pa.array([1] * 5, pa.int32()),
        "_replaces": pa.array([None] * 5, pa.int64()),
        "id": list(offsets),
        "item": ITEMS,
    }
    write_deltalake(store.path(stream("orders")), pa.table(rows), mode="append")
    inits = [
        _event("orders", number, 10 * number + offset, "init", emitted=1, consumed=0)
        | {"spout": "orders", "source_partition": file, "source_offset": offset, "attempt": 1}
        for offset in offsets
    ]
    log(store, "orders", number, inits, is_sealed=True)


def _event(
    component: str, batch: int, root: int, kind: str, emitted: int = 0, **columns: Any
) -> dict[str, Any]:
    found = {
        "root_id": root,
        "kind": kind,
        "ack_val": root,
        "emitted": emitted,
        "consumed": 1,
        "logged_at": NOW,
    }
    return found | {"component": component, "batch": batch} | columns

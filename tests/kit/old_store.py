"""A small store with rows in every table. `python -m tests.kit.old_store FILE` writes one with today's code.

`tests/store/formats` keeps the store that each format's code wrote, so that later code can show that it
brings it up to its own. Whoever changes the format writes one first, with the code before the change.
"""

import sys
import tarfile
import tempfile
from datetime import timedelta
from pathlib import Path

import polars as pl
import pyarrow as pa
from deltalake import write_deltalake

from acker.batches.run import Run
from acker.core.errors import BoltError
from acker.core.events import State
from acker.core.retry import ExponentialBackoff
from acker.core.store.store import Store
from acker.operations.cycle import run_bolt, run_cycle, run_spout
from acker.operations.maintenance.trim import trim_events, trim_streams
from acker.operations.replay import plan_by_hand
from acker.operations.selection.selection import Selection
from acker.topology.topology import Topology
from tests.kit.places import Clock
from tests.kit.polars_topology import NoSpark, PolarsTopology, TableSource

NAME = "kept"
_WEEK_SECONDS = 7 * 86_400


def topology(source: str, is_broken: bool = False) -> Topology:
    """Numbers that are doubled, of which 2 fails always; `kept` raises where it is broken."""
    made = PolarsTopology(NAME, message_timeout=None, retry=ExponentialBackoff(limit=0))
    numbers = made.spout("numbers", TableSource(source))

    @made.bolt(numbers)
    def doubled(tuples: pl.DataFrame) -> pl.DataFrame:
        failed = pl.when(pl.col("id") == 2).then(pl.lit("two is refused"))
        return tuples.with_columns(pl.col("id") * 2, _error=failed)

    @made.bolt(doubled)
    def kept(tuples: pl.DataFrame) -> pl.DataFrame:
        if is_broken:
            raise BoltError("no route")
        return tuples

    return made


def add(source: str, *ids: int) -> None:
    """New messages."""
    write_deltalake(source, pa.table({"id": list(ids)}), mode="append")


def write(folder: Path) -> None:
    """Write a store and its source: settled, replayed and trimmed messages, one in flight and one held."""
    source, clock = str(folder / "numbers"), Clock()
    add(source, 1, 2)
    store = Store(str(folder / "store"), NAME)
    store.create()

    def run(is_broken: bool = False) -> Run:
        return Run(topology(source, is_broken), store, NoSpark, clock=clock)  # type: ignore[arg-type]

    run_cycle(run())
    clock.advance(_WEEK_SECONDS)
    trim_streams(run(), timedelta(days=1))
    trim_events(run(), timedelta(days=1))
    plan_by_hand(run(), Selection(states=(State.DEAD_LETTER,)), "to see", "tester")
    run_cycle(run())
    add(source, 3)
    broken = run(is_broken=True)
    run_spout(broken, broken.topology.spouts[0])
    for bolt in broken.topology.bolts:
        try:
            run_bolt(broken, bolt)
        except BoltError:
            continue  # its batch is held
    add(source, 4)
    run_spout(run(), broken.topology.spouts[0])


def main() -> None:
    """Write a store into an archive."""
    with tempfile.TemporaryDirectory() as folder, tarfile.open(sys.argv[1], "w:gz") as archive:
        write(Path(folder))
        for each in ("numbers", "store"):
            archive.add(Path(folder, each), each, filter=_of_nobody)


def _of_nobody(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return None if entry.name.endswith(".crc") else entry


if __name__ == "__main__":
    main()

"""The states of messages that a request for a replay has emitted again. No topology is needed."""

from dataclasses import dataclass

import polars as pl

from acker.core.events import State
from acker.core.messages import MESSAGE
from acker.core.quoting import sql_text
from acker.core.snapshot.journal import Journal
from acker.core.snapshot.ledger import Fold, current_rows
from acker.core.store.parquet import collect, columns_of, scan
from acker.core.store.schemas import REPLAYS
from acker.core.store.store import Store
from acker.core.store.tables import files_of
from acker.operations.selection.requests import read_request


@dataclass(frozen=True)
class Replayed:
    """The numbers of the messages of a request by their states, as of the newest fold.

    Args:
        topology: the name of the topology.
        matched: messages that the request chose; 0 before any was emitted.
        emitted: messages that were emitted again for the request. The other messages that it chose were in
            flight when it was emitted, or somebody else had emitted them.
        acked, dead_letter, lost: emitted messages in these states, by the attempt that the request emitted or
            by a later one.
    """

    topology: str
    matched: int = 0
    emitted: int = 0
    acked: int = 0
    dead_letter: int = 0
    lost: int = 0

    @property
    def open(self) -> int:
        """Messages that are in flight still, or wait for another attempt."""
        return self.emitted - self.acked - self.dead_letter - self.lost

    @property
    def has_failed(self) -> bool:
        """Whether some messages were given up again, or are gone from their source."""
        return bool(self.dead_letter or self.lost)

    @property
    def counts(self) -> dict[str, int]:
        """Name -> number of messages: `matched`, `emitted`, `acked`, `dead_letter`, `lost` and `open`."""
        names = ("matched", "emitted", "acked", "dead_letter", "lost", "open")
        return {name: getattr(self, name) for name in names}

    def __str__(self) -> str:
        stands = {
            "acked": self.acked,
            "given up again": self.dead_letter,
            "gone from their source": self.lost,
            "open": self.open,
        }
        told = ", ".join(f"{name} {count:,}" for name, count in stands.items() if count or name == "acked")
        return f"Of {self.emitted:,} messages that were emitted again: {told}.{self._left_out}"

    @property
    def _left_out(self) -> str:
        count = self.matched - self.emitted
        return f" Left out, since others had emitted them or they were in flight: {count:,}." if count else ""


def replayed(store: Store, request_id: str) -> Replayed:
    """The states of the messages that a request has emitted again; all numbers are 0 where it has none."""
    journal = Journal(store)
    emitted = _emitted(journal, request_id)
    if emitted.is_empty():
        return Replayed(store.topology)
    states = dict(_newest(journal.fold, emitted).group_by("state").len().iter_rows())
    settled = {str(state): states.get(state, 0) for state in (State.ACKED, State.DEAD_LETTER, State.LOST)}
    matched = read_request(store, request_id).matched
    return Replayed(store.topology, matched, emitted.height, **settled)


def _emitted(journal: Journal, request_id: str) -> pl.DataFrame:
    """The messages of a request that are in batches of replays, with their attempt."""
    table = journal.open(REPLAYS)
    files = files_of(table, f"request_id = {sql_text(request_id)}") if table else []
    rows = scan(files, columns_of(REPLAYS)).filter(pl.col("request_id") == request_id)
    planned = journal.plans_of_replays().to_frame("plan").lazy()
    found = rows.join(planned, on="plan", how="semi").select(*MESSAGE, "attempt").unique()
    return collect(found, lambda: files)


def _newest(fold: Fold | None, emitted: pl.DataFrame) -> pl.DataFrame:
    """The newest state of each message that the fold knows in the emitted attempt or a later one."""
    mine = emitted.rename({"attempt": "first"})
    current = current_rows(fold).select(*MESSAGE, "attempt", "fold", "state")
    known = current.join(mine.lazy(), on=MESSAGE).filter(pl.col("attempt") >= pl.col("first"))
    return collect(known).sort("attempt", "fold").group_by(MESSAGE).last()

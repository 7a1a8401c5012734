"""The messages of replays, as rows of the table `replays`.

The messages are recorded before a plan or a request names them. A plan in the journal does not list them,
since they may be millions. It is a line of JSON, which everybody who reads the journal parses.
"""

import uuid

import polars as pl
import pyarrow as pa

from acker.core.errors import StoreError
from acker.core.messages import MESSAGE, POSITION
from acker.core.snapshot.inputs import Replay
from acker.core.snapshot.planned import Batch
from acker.core.store.checksums import checksum_of_replay
from acker.core.store.parquet import collect, columns_of, scan
from acker.core.store.schemas import REPLAYS, SCHEMAS
from acker.core.store.store import Store
from acker.core.store.tables import RECOVERY_HINT, append_new, append_rows, files_of

_COLUMNS = columns_of(REPLAYS)
EMISSIONS = pl.Schema({name: _COLUMNS[name] for name in (*POSITION, "attempt", "replaces")})


def record_replay(store: Store, spout: str, messages: pl.DataFrame, request_id: str | None = None) -> Replay:
    """Record messages that are to be emitted again, and return the input of the batch that emits them.

    Where the batch is never planned, the rows stay and no plan names them.

    Args:
        messages: columns as in `EMISSIONS`, one row or more.
        request_id: of the replay by hand that has chosen the messages.

    Raises:
        StoreError: the messages could not be recorded.
    """
    plan = uuid.uuid4().hex
    found = _rows(plan, request_id, messages.with_columns(spout=pl.lit(spout)))
    append_new(store.require(REPLAYS), _arrow(found))
    checksum, highest, replaces = found.select(
        checksum_of_replay(),
        pl.col("attempt").max().alias("highest"),
        pl.col("replaces").is_not_null().any().alias("any"),
    ).row(0)
    return Replay(plan, found.height, checksum, highest, replaces)


def record_requested(store: Store, plan: str, request_id: str, messages: pl.DataFrame) -> None:
    """Record which messages a request has chosen; once for each `plan`, however often it is called.

    Args:
        messages: columns as in `EMISSIONS`, and `spout`.

    Raises:
        StoreError: the messages could not be recorded.
    """
    append_rows(store.require(REPLAYS), _arrow(_rows(plan, request_id, messages)), plan, 1)


def _rows(plan: str, request_id: str | None, messages: pl.DataFrame) -> pl.DataFrame:
    rows = messages.with_columns(plan=pl.lit(plan), request_id=pl.lit(request_id))
    return rows.select(pl.col(name).cast(kind) for name, kind in _COLUMNS.items())


def _arrow(rows: pl.DataFrame) -> pa.Table:
    return rows.to_arrow().cast(SCHEMAS[REPLAYS].arrow())


def recorded(store: Store, plan: str) -> pl.DataFrame:
    """The messages that are recorded under a plan, with their spout."""
    files = files_of(store.require(REPLAYS), f"plan = '{plan}'")
    mine = scan(files, _COLUMNS).filter(pl.col("plan") == plan)
    return collect(mine.select(*MESSAGE, "attempt", "replaces"), lambda: files)


def messages_of(store: Store, batch: Batch) -> pl.DataFrame:
    """The messages that a replay's batch emits again, as `EMISSIONS` has them.

    Raises:
        StoreError: the messages in the table are not those that were recorded.
    """
    planned = batch.replay
    if planned.listed:
        return pl.DataFrame(planned.listed, EMISSIONS, orient="row")
    found = recorded(store, planned.plan).select(EMISSIONS.names())
    if (found.height, found.select(checksum_of_replay()).item()) != (planned.count, planned.checksum):
        raise StoreError(
            f"{store.path(REPLAYS)} has {found.height:,} messages of batch {batch.number} of "
            f"{batch.component}, which are not the {planned.count:,} that were recorded: it was restored or "
            f"edited by hand. Restore it to a version that holds them. {RECOVERY_HINT}",
            component=batch.component,
            batch=batch.number,
            table=store.path(REPLAYS),
        )
    return found


def positions_of(messages: pl.DataFrame) -> pa.Table:
    """The columns source_partition and source_offset of some messages, as spouts take them."""
    kinds = SCHEMAS[REPLAYS].arrow()
    found = messages.select(POSITION).to_arrow()
    return found.cast(pa.schema([kinds.field(name) for name in found.column_names]))

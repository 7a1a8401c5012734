"""Forgetting: the store drops reasons that may quote a user's rows, of chosen messages or of all old ones.

A reason is in `events`, in the ledger, in `holds` and in `refusals`. The rows of these tables stay, and
another text takes the place of the reason. The ledger is changed last, since it tells which messages are to
be forgotten. So a forgetting that was killed can begin anew, and finds the reasons that are left. The acker's
own reasons quote no row and stay: that an attempt was not complete in time, or was superseded.
"""

import json
import uuid
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import timedelta

import polars as pl
import pyarrow as pa

from acker.batches.run import Run
from acker.core.errors import SettingsError
from acker.core.events import SELECTABLE, Kind, State
from acker.core.messages import MESSAGE, POSITION, message_of
from acker.core.quoting import check_text
from acker.core.snapshot.journal import Journal
from acker.core.snapshot.ledger import Fold, live_rows, settled_rows, unfolded
from acker.core.store.parquet import collect, columns_of, scan
from acker.core.store.rewriting import replace_reasons
from acker.core.store.schemas import EVENTS, HOLDS, LEDGER, REFUSALS, REPLAY_REQUESTS, SCHEMAS
from acker.core.store.tables import append_rows, files_of
from acker.operations.selection.matching import newest_matching
from acker.operations.selection.selection import Selection
from acker.topology.topology import Topology

FORGOTTEN, EXPIRED = "forgotten", "expired"

_NOTE = "acker.forget"  # in the history of a table: the request
_TEXTS = [FORGOTTEN, EXPIRED]
_BATCH = ("component", "batch")
_KNOWN = pl.col("reason").is_not_null() & ~pl.col("reason").is_in(_TEXTS)
# Of the ledger the reasons that are of a component or of a source, and not the acker's own.
_TOLD = _KNOWN & (pl.col("component").is_not_null() | (pl.col("state") == State.LOST))


@dataclass(frozen=True)
class Forgotten:
    """The result of a forgetting.

    Args:
        messages: how many messages were chosen.
        partners: how many messages shared tuples with these, so that their reasons may quote the same rows.
        unknown: how many positions were named that no fold knows.
        events, ledger, holds: how many rows of these tables lost their reason, or are to lose it.
    """

    messages: int
    partners: int = 0
    unknown: int = 0
    events: int = 0
    ledger: int = 0
    holds: int = 0


@dataclass(frozen=True)
class _Found:
    """The messages of a selection in a snapshot.

    Args:
        messages: columns of `MESSAGE`.
        roots: the roots of all attempts of the messages and of their partners.
    """

    journal: Journal
    fold: Fold
    messages: pl.DataFrame
    roots: pl.DataFrame
    partners: int

    def chosen(self) -> Mapping[str, pl.Expr]:
        """Table -> which of its rows tell of the messages; the tables are to be changed in this order."""
        mine = pl.col("root_id").is_in(self.roots["root_id"].implode())
        refused = {REFUSALS: mine & _KNOWN & _is_read(self.fold)} if self.fold.refusals else {}
        return {
            HOLDS: _of_batches(self._batches()),
            EVENTS: mine & _KNOWN,
            **refused,
            LEDGER: mine & _TOLD,
        }

    def _batches(self) -> pl.DataFrame:
        """The held batches whose holds may tell of the messages, as `component` and `batch`.

        Only batches that are logged by now are looked at. Such a batch may tell of the messages if it took in
        one of them. It also may if its events were trimmed, so that nobody can tell. A fold that could not be
        published at a try has no events, and is always among them.
        """
        held = _held(self.journal)
        events = scan(files_of(self.journal.require(EVENTS)), columns_of(EVENTS))
        events = events.join(held.lazy(), on=_BATCH, how="semi")
        took = events.join(self.roots.lazy(), on="root_id", how="semi").select(_BATCH).unique()
        kept = events.filter(pl.col("kind") == Kind.BATCH).select(_BATCH)
        gone = held.lazy().join(kept, on=_BATCH, how="anti")
        return collect(pl.concat([took, gone]))


def dry_run(topology: Topology, journal: Journal, selection: Selection) -> Forgotten:
    """The result that `forget` would have; nothing is changed.

    Raises:
        SettingsError: a message is in flight, or the selection names a spout or component that is not there.
    """
    found = _find(topology, journal, selection)
    if found is None:
        return Forgotten(0, unknown=len(selection.positions))
    counts = {name: _count(journal, name, chosen) for name, chosen in found.chosen().items()}
    return _result(found, selection, counts)


def forget(run: Run, selection: Selection, why: str, requested_by: str) -> Forgotten:
    """Put `forgotten` in the place of every reason that may quote a row of the chosen messages.

    The request, with who asked and why, is recorded first, in `replay_requests`. Done again, the forgetting
    does the rest.

    Raises:
        SettingsError: as in `dry_run`.
        StoreError: other commits were in the way each time; done again it goes on.
    """
    check_text("The why", why)
    check_text("The name", requested_by)
    found = _find(run.topology, run.snapshot(), selection)
    if found is None:
        return Forgotten(0, unknown=len(selection.positions))
    request = _record(run, selection, why, requested_by, found.messages.height)
    counts = {
        name: replace_reasons(run.store, name, chosen, FORGOTTEN, {_NOTE: request})
        for name, chosen in found.chosen().items()
    }
    _drop_old_live_rows(run, found.fold)
    return _result(found, selection, counts)


def expire_reasons(run: Run, older_than: timedelta) -> dict[str, int]:
    """Put `expired` in the place of every reason that is older than the retention.

    A file without such rows is not written anew.

    Returns:
        Table -> how many of its rows have changed; tables without any are left out.
    """
    journal = run.snapshot()
    if journal.fold is None:
        return {}
    before = pl.lit(run.clock() - older_than).cast(pl.Datetime("us", "UTC"))
    is_folded = pl.col("batch") <= _newest(journal.fold)
    chosen = {
        HOLDS: _of_batches(_held(journal)) & (pl.col("tried_at") < before),
        EVENTS: _KNOWN & is_folded & (pl.col("logged_at") < before),
        LEDGER: _TOLD & (pl.col("settled_at") < before),
    }
    if journal.fold.refusals:
        chosen[REFUSALS] = _KNOWN & _is_read(journal.fold) & (pl.col("refused_at") < before)
    counts = {name: replace_reasons(run.store, name, rows, EXPIRED, {}) for name, rows in chosen.items()}
    return {name: count for name, count in counts.items() if count}


def _find(topology: Topology, journal: Journal, selection: Selection) -> _Found | None:
    fold = journal.fold
    if fold is None:
        return None
    states = list(selection.states)
    if set(states) == set(SELECTABLE):
        states.append(State.PENDING)
    messages = collect(newest_matching(topology, fold, selection, states).select(MESSAGE).unique())
    rows = pl.concat([settled_rows(fold), live_rows(fold)]).filter(pl.col("root_id").is_not_null())
    own = rows.join(messages.lazy(), on=MESSAGE, how="semi")
    groups = own.select("joined").drop_nulls().unique()
    partners = rows.join(groups, on="joined", how="semi")
    every = pl.concat([own, partners]).select("root_id", *MESSAGE).unique()
    found = collect(every)
    _check_settled(journal, fold, found)
    others = found.select(MESSAGE).unique().join(messages, on=MESSAGE, how="anti").height
    return _Found(journal, fold, messages, found.select("root_id").unique(), others)


def _check_settled(journal: Journal, fold: Fold, found: pl.DataFrame) -> None:
    """Refuse messages that are in flight, as of the newest fold or of the events logged since."""
    logged = {name: journal.logged(name) for name in journal.components()}
    files = files_of(journal.require(EVENTS), unfolded(fold, logged))
    newer = pl.col("batch") > _newest(fold)
    emitted = scan(files, columns_of(EVENTS)).filter(newer & (pl.col("kind") == Kind.INIT)).select(MESSAGE)
    in_flight = pl.concat([live_rows(fold).select(MESSAGE), emitted]).unique()
    moving = collect(in_flight.join(found.lazy(), on=MESSAGE, how="semi").sort(MESSAGE))
    for row in moving.head(1).rows(named=True):
        more = f" and {moving.height - 1:,} more" if moving.height > 1 else ""
        raise SettingsError(
            f"{message_of(row)}{more} of these messages, or of those that share tuples with them, are in "
            "flight or wait for their next attempt, and may fail with new reasons. Nothing was forgotten. "
            "Wait until they have settled, or choose others."
        )


def _newest(fold: Fold) -> pl.Expr:
    """The newest batch of a row's component that a fold has seen."""
    return pl.col("component").replace_strict(dict(fold.logged), default=0, return_dtype=pl.Int64)


def _is_read(fold: Fold) -> pl.Expr:
    """Which rows of `refusals` a fold has read, so that nobody needs their reasons any more."""
    return pl.col("refusal") <= fold.refusals


def _held(journal: Journal) -> pl.DataFrame:
    """The batches that were held and are logged by now, and the folds that could not be published at a try.

    Nobody goes by the hold of a batch that is logged. All folds up to the newest are among these folds, also
    those that are not published yet.

    Returns:
        `component` and `batch`, as `holds` has them.
    """
    holds = scan(files_of(journal.require(HOLDS)), columns_of(HOLDS))
    logged = {name: journal.logged(name) for name in journal.components()}
    folds = journal.fold.number if journal.fold else 0  # of a publisher's rows
    newest = pl.col("component").replace_strict(logged, default=folds, return_dtype=pl.Int64)
    return collect(holds.filter(pl.col("batch") <= newest).select(_BATCH).unique())


def _of_batches(batches: pl.DataFrame) -> pl.Expr:
    """Which rows of `holds` are of some batches and have a reason still."""
    name = pl.format("{} {}", *_BATCH)
    return name.is_in(batches.select(name.alias("name"))["name"].implode()) & _KNOWN


def _count(journal: Journal, name: str, chosen: pl.Expr) -> int:
    where = "live_in IS NULL" if name == LEDGER else None
    rows = scan(files_of(journal.require(name), where), columns_of(name))
    return int(collect(rows.filter(chosen).select(pl.len())).item())


def _result(found: _Found, selection: Selection, counts: Mapping[str, int]) -> Forgotten:
    named = pl.DataFrame(
        selection.positions, {name: found.messages.schema[name] for name in POSITION}, orient="row"
    )
    unknown = named.join(found.messages, on=POSITION, how="anti").unique().height
    return Forgotten(
        found.messages.height, found.partners, unknown, counts[EVENTS], counts[LEDGER], counts[HOLDS]
    )


def _record(run: Run, selection: Selection, why: str, requested_by: str, matched: int) -> str:
    """Record a request to forget, and return its id.

    The record has `FORGOTTEN` in place of a reason that the selection looks for.

    Args:
        matched: how many messages the selection matches.
    """
    asked = asdict(selection) | {"reason": selection.reason and FORGOTTEN}
    row = {
        "request_id": f"forget-{uuid.uuid4().hex}",
        "requested_by": requested_by,
        "requested_at": run.clock(),
        "why": why,
        "selection": json.dumps({"forget": asked}, default=str),
        "matched": matched,
    }
    rows = pa.Table.from_pylist([row], SCHEMAS[REPLAY_REQUESTS].arrow())
    append_rows(run.store.require(REPLAY_REQUESTS), rows, str(row["request_id"]), 1)
    return str(row["request_id"])


def _drop_old_live_rows(run: Run, fold: Fold) -> None:
    """Delete rows that were live in folds before the newest: nobody reads them, and they tell reasons too."""
    before = f"live_in < {fold.number}"
    if files_of(run.store.require(LEDGER), before):
        run.store.change(LEDGER, lambda table: table.delete(before))

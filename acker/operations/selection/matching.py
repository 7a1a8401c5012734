"""The messages that a selection finds in the ledger, and the check whether they may be replayed.

The messages are rows of data frames, since there may be millions of them.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import polars as pl

from acker.core.errors import SettingsError, TopologyError
from acker.core.events import State
from acker.core.fold.settlement_groups import connected
from acker.core.messages import MESSAGE, POSITION, message_of
from acker.core.names import did_you_mean
from acker.core.snapshot.ledger import Fold, current_rows, live_rows, newest_of
from acker.core.snapshot.refusals import recorded, refusals
from acker.core.snapshot.replays import EMISSIONS
from acker.core.snapshot.snapshot import Snapshot
from acker.core.snapshot.trims import Trim, newest_trim
from acker.core.store.parquet import collect
from acker.operations.selection.conditions import messages_where
from acker.operations.selection.days import OwnDays, first_emitted
from acker.operations.selection.selection import Selection
from acker.topology.topology import Topology

MOST_LISTED = 20  # messages of a dry run that are listed

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NONE = pl.DataFrame(schema={"spout": pl.String(), **EMISSIONS, "group": pl.Int64()})
_COLUMNS = (*MESSAGE, "state", "attempt", "component", "reason", "joined")


@dataclass(frozen=True)
class Listed:
    """One message as a dry run lists it."""

    message: str
    attempt: int  # the one to come
    state: str  # the newest
    component: str | None  # that failed it
    reason: str | None

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> "Listed":
        """The listing of a message, from its newest row in the ledger with the attempt to come."""
        reason = None if row["reason"] is None else row["reason"].partition("\n")[0]
        return cls(str(message_of(row)), row["attempt"], str(row["state"]), row["component"], reason)


@dataclass(frozen=True)
class Matched:
    """The messages that a selection finds in the ledger.

    Args:
        emissions: messages to emit again, with `spout`, the columns of `EMISSIONS`, and `group`, which is the
            same for messages that settled together.
        in_flight: how many messages match but for their state.
        trimmed: how many of `emissions` are acked messages whose tuples may be gone from the streams.
        listed: the first `MOST_LISTED` of `emissions`.
        unseen: how many messages `where` or `day_column` cannot judge, since their rows were trimmed from the
            spout's stream.
        chosen: how many of `emissions` match; the others were settled together with those.
    """

    emissions: pl.DataFrame = field(default_factory=lambda: _NONE, repr=False)
    in_flight: int = 0
    trimmed: int = 0
    listed: tuple[Listed, ...] = ()
    unseen: int = 0
    chosen: int = 0

    @property
    def count(self) -> int:
        """How many messages there are to replay."""
        return self.emissions.height


def select(topology: Topology, snapshot: Snapshot, selection: Selection) -> Matched:
    """Find the messages that a selection matches, by the newest row of each in the ledger.

    A message brings along those with which it was acked or given up, since they share tuples.
    """
    fold = snapshot.fold
    if fold is None:
        return Matched()
    _check_names(topology, fold, selection)
    spouts = [spout.name for spout in topology.spouts]  # one that is gone emits nothing
    mine = pl.col("spout").is_in(spouts) & _condition(selection)
    judged = _judge(snapshot, fold, spouts, selection)

    def newest(rows: pl.LazyFrame, states: Sequence[State]) -> pl.LazyFrame:
        found = rows.filter(mine & pl.col("state").is_in(states))
        if selection.positions:
            found = found.join(_positions(selection), on=POSITION, how="semi")
        if selection.day is not None and selection.day_column is None:
            found = found.join(first_emitted(fold, selection.day), on=MESSAGE, how="semi")
        of_messages = newest_of(fold, found).select(_COLUMNS)
        return of_messages if judged is None else judged(of_messages)

    pending = newest(live_rows(fold), [State.PENDING])
    settled = newest(current_rows(fold), selection.states)
    unseen = 0
    if judged is not None:
        unseen = _count(pl.concat([pending, settled]).filter(pl.col("holds").is_null()))
        pending, settled = (rows.filter("holds").drop("holds") for rows in (pending, settled))
    ordered = settled.sort(MESSAGE)
    chosen = collect(ordered if selection.limit is None else ordered.head(selection.limit))
    found = _emitted(topology, snapshot, fold, chosen)
    return _matched(found, _count(pending), unseen, chosen.height)


def newest_matching(
    topology: Topology, fold: Fold, selection: Selection, states: Sequence[State]
) -> pl.LazyFrame:
    """The newest rows of the messages that a selection matches, of spouts that are gone as well.

    Args:
        selection: the selection, whose `states`, `where`, `limit`, `day` and `day_column` are passed over.
        states: the states that the newest rows may have.
    """
    _check_names(topology, fold, selection)
    found = current_rows(fold).filter(_condition(selection) & pl.col("state").is_in(states))
    if selection.positions:
        found = found.join(_positions(selection), on=POSITION, how="semi")
    return newest_of(fold, found)


def select_recorded(topology: Topology, snapshot: Snapshot, recorded: pl.DataFrame) -> Matched:
    """Find the recorded messages whose next attempt is still the recorded one.

    Left out are messages that are in flight, were emitted again meanwhile, or are of a spout that is gone.
    Also left out are messages that settled together with a message that is not recorded with its next
    attempt, since that one would have to be emitted as well.

    Args:
        recorded: messages with the attempt to come.
    """
    fold = snapshot.fold
    if fold is None:
        return Matched()
    spouts = [spout.name for spout in topology.spouts]
    mine = current_rows(fold).filter(pl.col("spout").is_in(spouts))
    newest = newest_of(fold, mine.join(recorded.lazy(), on=MESSAGE, how="semi"))
    chosen = newest.filter(pl.col("state") != State.PENDING).select(_COLUMNS).sort(MESSAGE)
    found = _emitted(topology, snapshot, fold, collect(chosen))
    key = [*MESSAGE, "attempt"]
    others = found.join(recorded, on=key, how="anti")["group"].drop_nulls()
    is_whole = ~pl.col("group").is_in(others.implode()).fill_null(False)
    return _matched(found.join(recorded, on=key, how="semi", maintain_order="left").filter(is_whole))


def _matched(emitted: pl.DataFrame, in_flight: int = 0, unseen: int = 0, chosen: int = 0) -> Matched:
    return Matched(
        emitted.select(_NONE.columns),
        in_flight,
        emitted.filter("gone").height,
        tuple(Listed.of(row) for row in emitted.head(MOST_LISTED).rows(named=True)),
        unseen,
        chosen,
    )


def _emitted(topology: Topology, snapshot: Snapshot, fold: Fold, chosen: pl.DataFrame) -> pl.DataFrame:
    """Chosen messages and their partners, with the attempt to come, `group`, and `gone`."""
    trim = newest_trim(snapshot.store)
    chosen = _with_acked(snapshot, fold, trim, chosen)
    partners = _partners(topology, snapshot, fold, trim, chosen).filter(pl.col("state") != State.PENDING)
    # A retrying row names the attempt to come, every other one the attempt that was.
    to_come = pl.col("attempt") + (pl.col("state") != State.RETRYING).cast(pl.Int32)
    return _grouped(pl.concat([chosen, partners]).with_columns(to_come))


def _count(rows: pl.LazyFrame) -> int:
    return int(collect(rows.select(pl.len())).item())


def _positions(selection: Selection) -> pl.LazyFrame:
    kinds = {"source_partition": pl.String, "source_offset": pl.Int64}
    return pl.LazyFrame(selection.positions, kinds, orient="row")


def _judge(
    snapshot: Snapshot, fold: Fold, spouts: Sequence[str], selection: Selection
) -> Callable[[pl.LazyFrame], pl.LazyFrame] | None:
    """A function that adds `holds` to messages: whether a selection chooses them by their own columns.

    `holds` is null for messages whose rows were trimmed. If the selection has a day column, the function
    drops messages that say no day.

    Returns:
        The function; None where the selection has no condition on the messages' own columns.
    """
    if selection.day is not None and selection.day_column is not None:
        days = OwnDays.of(snapshot, spouts, selection.day_column, selection.day)
        days.check_known(current_rows(fold).select(MESSAGE), snapshot, spouts)
        return days.judged
    if selection.where is None or selection.spout is None:
        return None
    found = messages_where(snapshot, selection.spout, selection.where).lazy()
    return lambda messages: messages.join(found, on=POSITION, how="left")


def _check_names(topology: Topology, fold: Fold, selection: Selection) -> None:
    """Refuse a spout that the topology does not have, and a component that it never had."""
    spouts = [spout.name for spout in topology.spouts]
    if selection.spout is not None and selection.spout not in spouts:
        raise SettingsError(
            f"Topology {topology.name} has no spout called {selection.spout}; choose one of "
            f"{', '.join(spouts)}.{did_you_mean(selection.spout, spouts)}"
        )
    components = {*topology.components, *fold.logged}
    if selection.component is not None and selection.component not in components:
        raise SettingsError(
            f"Topology {topology.name} has no component called {selection.component}; choose one of "
            f"{', '.join(topology.components)}.{did_you_mean(selection.component, components)}"
        )


def _condition(selection: Selection) -> pl.Expr:
    """The conditions of a selection on rows of the ledger, but for states and positions."""
    terms = [pl.lit(True)]
    if selection.spout is not None:
        terms.append(pl.col("spout") == selection.spout)
    if selection.partition is not None:
        terms.append(pl.col("source_partition").str.contains(_pattern(selection.partition)))
    if selection.component is not None:
        terms.append(pl.col("component") == selection.component)
    if selection.since is not None:
        terms.append(pl.col("emitted_at") >= _time(selection.since))
    if selection.until is not None:
        terms.append(pl.col("emitted_at") <= _time(selection.until))
    if selection.reason is not None:
        terms.append(pl.col("reason").str.to_lowercase().str.contains(selection.reason.lower(), literal=True))
    return pl.all_horizontal(terms)


def _time(value: datetime) -> pl.Expr:
    """A literal for a time in UTC, which may lie outside the years that Python's `datetime` can hold."""
    return pl.lit((value - _EPOCH) // timedelta(microseconds=1)).cast(pl.Datetime("us", "UTC"))


def _pattern(glob: str) -> str:
    """A regular expression for texts of a pattern in which `*` is any text and `?` one character."""
    parts = {"*": ".*", "?": "."}
    return f"(?s)^{''.join(parts.get(character) or re.escape(character) for character in glob)}$"


def _with_acked(snapshot: Snapshot, fold: Fold, trim: Trim, rows: pl.DataFrame) -> pl.DataFrame:
    """Rows of messages with the acked attempt that a replay is to replace, if any.

    `replaces` is its root, `acked_with` the group of roots that it was acked with, and `gone` whether its
    tuples may be gone. An attempt that was refused after its ack is in no table, and nothing is to replace
    it.
    """
    acked = current_rows(fold).filter(pl.col("state") == State.ACKED)
    mine = acked.join(rows.lazy().select(MESSAGE), on=MESSAGE, how="semi")
    last = mine.group_by(MESSAGE).agg(
        pl.col("root_id", "joined", "batch").get(pl.col("attempt").arg_max()),
    )
    upto = pl.col("spout").replace_strict(dict(trim.upto), default=0, return_dtype=pl.Int64)
    found = last.select(
        *MESSAGE, replaces="root_id", acked_with="joined", gone=(pl.col("batch") <= upto).fill_null(False)
    )
    refused = refusals(recorded(snapshot), 0, fold.refusals)["root_id"].implode()
    is_refused = pl.col("replaces").is_in(refused).fill_null(False)
    each = rows.join(collect(found), on=MESSAGE, how="left", maintain_order="left")
    return each.with_columns(
        pl.when(~is_refused).then("replaces").alias("replaces"),
        gone=pl.col("gone").fill_null(False) & ~is_refused,
    )


def _partners(
    topology: Topology, snapshot: Snapshot, fold: Fold, trim: Trim, chosen: pl.DataFrame
) -> pl.DataFrame:
    """The messages that were acked, or given up, together with chosen ones, since they share tuples.

    Raises:
        TopologyError: one of the messages is of a spout that is gone.
    """
    groups = pl.concat([chosen["acked_with"], chosen["joined"]]).drop_nulls().unique()
    if groups.is_empty():
        return chosen.clear()
    current = current_rows(fold)
    members = current.join(groups.alias("joined").to_frame().lazy(), on="joined", how="semi")
    others = members.select(MESSAGE).unique().join(chosen.lazy(), on=MESSAGE, how="anti")
    newest = newest_of(fold, current.join(others, on=MESSAGE, how="semi"))
    columns = [name for name in chosen.columns if name not in ("replaces", "acked_with", "gone")]
    rows = _with_acked(snapshot, fold, trim, collect(newest.select(columns)))
    is_member = pl.any_horizontal(pl.col("acked_with", "joined").is_in(groups.implode()))
    found = rows.filter(is_member).sort(MESSAGE)
    for row in found.filter(~pl.col("spout").is_in(list(topology.components))).head(1).rows(named=True):
        raise TopologyError(
            f"{message_of(row)} was settled together with a chosen message and would have to be "
            "replayed with it, but its spout is gone. Bring the spout back, or choose other messages."
        )
    return found


def _grouped(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows of messages with `group`, the same for all that settled together; null of one alone."""
    links = rows.select(root_id="acked_with", joined="joined").drop_nulls()
    labels = connected(links).select(own="root_id", group="joined")
    mine = rows.with_columns(own=pl.coalesce("acked_with", "joined"))
    found = mine.join(labels, on="own", how="left", maintain_order="left")
    return found.with_columns(group=pl.coalesce("group", "own"))


def parted(emissions: pl.DataFrame, rows: int) -> list[pl.DataFrame]:
    """Messages of a spout, with the columns of `EMISSIONS`, in parts of about `rows`; no group is split."""
    ordered = emissions.sort("group", nulls_last=True, maintain_order=True).with_row_index("place")
    place, group = pl.col("place"), pl.col("group")
    first = pl.when(group.is_null()).then(place).otherwise(place.min().over("group"))
    found = ordered.select(*EMISSIONS, (first // rows).alias("part"))
    return found.partition_by("part", maintain_order=True, include_key=False)


def check_reversible(topology: Topology, matched: Matched) -> None:
    """Refuse to replay acked messages where a target could not take them back.

    Raises:
        TopologyError: there is such a target; the error names the table and the aggregate.
    """
    if matched.emissions["replaces"].is_null().all():
        return
    for publication in topology.publications.values():
        if publication.target.takes_back and matched.trimmed:
            raise TopologyError(
                f"{matched.trimmed} of the acked messages cannot be replayed: their tuples were trimmed from "
                f"the streams, so {publication.to} cannot take back what they added. Select messages that "
                "were emitted later, or rebuild the table from its source."
            )
        reason = publication.target.irreversible()
        if reason is not None:
            raise TopologyError(f"Acked messages cannot be replayed: {reason}")

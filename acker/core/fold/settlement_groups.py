"""Decisions of several messages together: Polars frames in and out.

Messages that share a tuple settle together. So do those that were acked together, when a replay by hand is to
replace one of them.
"""

from dataclasses import dataclass

import polars as pl

from acker.core.events import LIVE, Kind, State
from acker.core.messages import MESSAGE
from acker.core.store.parquet import collect, columns_of
from acker.core.store.schemas import LEDGER

PARTNER_SETTLED = "joined with a message that has settled"

_MEMBERS = {
    **{name: kind for name, kind in columns_of(LEDGER).items() if name in MESSAGE},
    "replaces": pl.Int64(),
    "group": pl.Int64(),
    "acked_in": pl.Int32(),
}


@dataclass(frozen=True)
class SettlementGroups:
    """The messages of a fold that are decided together.

    Args:
        links: pairs of roots that share a tuple: `root_id`, `joined`.
        members: the acked attempts (`replaces`) of messages that were acked together (`group`), where one of
            them is to be replaced; `acked_in` is the attempt's number.
        settled: settled rows of all folds.
    """

    links: pl.DataFrame
    members: pl.DataFrame
    settled: pl.LazyFrame

    @classmethod
    def of(cls, pending: pl.LazyFrame, events: pl.LazyFrame, settled: pl.LazyFrame) -> "SettlementGroups":
        """The messages that a fold decides together, by its roots in flight and its new events."""
        kind = pl.col("kind")
        linked = pl.concat([pending, events.filter(kind == Kind.JOIN)], how="diagonal")
        replacing = pl.concat([pending, events.filter(kind == Kind.INIT)], how="diagonal")
        return cls(
            collect(linked.select("root_id", "joined").drop_nulls().unique()),
            _acked_together(settled, collect(replacing.select("replaces").drop_nulls())),
            settled,
        )

    @property
    def is_empty(self) -> bool:
        """Whether each message is decided alone."""
        return self.links.is_empty() and self.members.is_empty()

    def split(self, rows: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Rows that are decided together, and those that are not."""
        if self.is_empty:
            return rows.clear(), rows
        roots = pl.concat([self.links["root_id"], self.links["joined"]]).unique().to_frame("root_id")
        messages = self.members.select(MESSAGE).unique()
        found = rows.join(roots.with_columns(linked=True), on="root_id", how="left")
        found = found.join(messages.with_columns(member=True), on=MESSAGE, how="left")
        is_together = pl.any_horizontal(pl.col("linked", "member").is_not_null())
        together, alone = (
            found.filter(each).drop("linked", "member") for each in (is_together, ~is_together)
        )
        return together, alone

    def decided(self, decided: pl.DataFrame, others: pl.DataFrame) -> pl.DataFrame:
        """The rows of roots that were decided alone, changed by the decision together.

        Args:
            others: rows of this fold of messages without an attempt in flight.
        """
        found, replacing = _replaced_together(decided, self.members, _ends(decided, others, self.settled))
        return _settled_together(found, pl.concat([self.links, replacing]))


def _acked_together(settled: pl.LazyFrame, replacing: pl.DataFrame) -> pl.DataFrame:
    """The `members` of `SettlementGroups`.

    Args:
        settled: settled rows of all folds.
        replacing: column `replaces`, the roots of the acked attempts that other attempts are to replace.
    """
    if replacing.is_empty():
        return pl.DataFrame(schema=_MEMBERS)
    acked = settled.filter((pl.col("state") == State.ACKED) & pl.col("joined").is_not_null())
    there = acked.join(replacing.lazy(), left_on="root_id", right_on="replaces", how="semi")
    members = acked.join(there, on="joined", how="semi")
    return collect(members.select(*MESSAGE, replaces="root_id", group="joined", acked_in="attempt"))


def _replaced_together(
    decided: pl.DataFrame, members: pl.DataFrame, ends: pl.LazyFrame
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The rows of `decided`, changed where attempts replace a group of messages that were acked together.

    The new attempts of a group share no tuple yet, so this function links them. If a message of the group has
    no new attempt yet, the complete attempts of the group stay pending. If it will have none, since it was
    given up or lost after the ack, the group's complete and pending attempts fail.

    Args:
        members: see `SettlementGroups`.
        ends: see `_ends`.

    Returns:
        The rows, and the links: pairs of roots, columns `root_id` and `joined`.
    """
    newest = decided.filter((pl.col("state") != State.LOST) & ~pl.col("superseded"))
    replacing = newest.select("root_id", "replaces").drop_nulls()
    if members.is_empty():
        return decided, pl.DataFrame(schema={"root_id": pl.Int64, "joined": pl.Int64})
    groups = (
        members.lazy()
        .join(replacing.lazy(), on="replaces", how="left")
        .join(ends, on=MESSAGE, how="left")
        .with_columns(missing=pl.col("root_id").is_null())
        .with_columns(end=pl.when(pl.col("missing") & (pl.col("ended_in") > pl.col("acked_in"))).then("end"))
        .with_columns(
            pl.col("missing").any().over("group"),
            pl.col("end").min().over("group"),
            joined=pl.col("root_id").min().over("group"),
        )
        .select("root_id", "joined", "missing", "end")
        .drop_nulls("root_id")
    )
    links = collect(groups)
    in_flight, end = pl.col("state").is_in([State.PENDING, State.ACKED]), pl.col("end")
    ends_now = in_flight & end.is_not_null()
    missing = (pl.col("state") == State.ACKED) & pl.col("missing").fill_null(False)
    found = decided.join(links.drop("joined"), on="root_id", how="left").with_columns(
        pl.when(ends_now)
        .then(pl.lit(State.FAILED))
        .when(missing)
        .then(pl.lit(State.PENDING))
        .otherwise("state")
        .alias("state"),
        pl.when(ends_now)
        .then(pl.format("to be replaced together with {}", "end"))
        .otherwise("reason")
        .alias("reason"),
    )
    return found.select(decided.columns), links.select("root_id", "joined")


def _ends(decided: pl.DataFrame, others: pl.DataFrame, settled: pl.LazyFrame) -> pl.LazyFrame:
    """Per message that is given up or lost and has no live row: its last attempt, and a text for reasons.

    Returns:
        The columns `MESSAGE`; `ended_in`, the number of the attempt; `end`, a text with the state and
        the name of the message.
    """
    columns = [*MESSAGE, "attempt", "state"]
    now = pl.concat([decided.select(columns), others.select(columns)]).lazy()
    ended = pl.concat([settled.select(columns), now.cast({"attempt": pl.Int32})])
    named = pl.format("a message that is {}\nThat is {}:{}:{}.", "state", *MESSAGE)
    return (
        ended.filter(pl.col("state").is_in([State.DEAD_LETTER, State.LOST]))
        .join(now.filter(pl.col("state").is_in(LIVE)), on=MESSAGE, how="anti")
        .sort("attempt", "state")
        .group_by(MESSAGE, maintain_order=True)
        .agg(ended_in=pl.col("attempt").last(), end=named.last())
    )


def _settled_together(decided: pl.DataFrame, links: pl.DataFrame) -> pl.DataFrame:
    """The rows of `decided`, with the roots of each linked group acked as a whole or failed as a whole.

    A complete root stays pending until all roots of its group are complete. If a root of the group fails or
    is no longer in flight, the group's complete and pending roots fail. Rows of unlinked roots stay as they
    are.
    """
    if links.is_empty():
        return decided
    groups = connected(links)
    attempts = decided.filter(pl.col("state") != State.LOST).drop("joined")
    members = groups.join(attempts, on="root_id", how="left").sort("root_id")
    state, in_flight = pl.col("state"), pl.col("state").is_in([State.PENDING, State.ACKED])
    name = pl.format("{}:{}:{}", *MESSAGE)
    # Who it is stands on a line of its own, so that all who failed for one cause have one first line.
    why = pl.format("joined with a message that failed: {}\nThat is {}.", "reason", name)
    groups = members.group_by("joined").agg(
        (state == State.ACKED).all(ignore_nulls=False).alias("complete"),
        state.is_null().any().alias("settled"),
        why.filter(~in_flight).first().alias("why"),
        pl.col("component").filter(~in_flight).first().alias("whose"),
    )
    fault = pl.coalesce("why", pl.when("settled").then(pl.lit(PARTNER_SETTLED)))
    together = (
        members.filter(state.is_not_null())
        .join(groups, on="joined")
        .with_columns(
            pl.when(in_flight & fault.is_not_null()).then(fault).otherwise("reason").alias("reason"),
            pl.when(in_flight & fault.is_not_null()).then("whose").otherwise("component").alias("component"),
            pl.when(in_flight & fault.is_not_null())
            .then(pl.lit(State.FAILED))
            .when((state == State.ACKED) & ~pl.col("complete"))
            .then(pl.lit(State.PENDING))
            .otherwise("state")
            .alias("state"),
        )
    )
    alone = decided.join(together, on="root_id", how="anti")
    return pl.concat([alone, together.select(decided.columns)])


def connected(links: pl.DataFrame) -> pl.DataFrame:
    """Every root of some links, with `joined`, the smallest root that it is linked to over any links.

    Each root hooks to the smallest of its neighbours, and each tree of hooks becomes one root, its smallest.
    Links that are left go into the next round. Root ids are random, so the rounds are few, however long a
    chain.

    Args:
        links: pairs of roots, columns `root_id` and `joined`.
    """
    ends = pl.concat([links["root_id"], links["joined"]]).unique().sort()
    found = pl.DataFrame({"root_id": ends, "joined": ends})
    while not links.is_empty():
        pairs = pl.concat([links, links.select(root_id="joined", joined="root_id")])
        hooks = pairs.group_by("root_id").agg(pl.col("joined").min())
        tops = _tops(hooks.with_columns(joined=pl.min_horizontal("root_id", "joined")))
        found = _replaced(found, "joined", tops)
        links = _replaced(_replaced(links, "root_id", tops), "joined", tops)
        links = links.filter(pl.col("root_id") != pl.col("joined")).unique()
    return found


def _tops(hooks: pl.DataFrame) -> pl.DataFrame:
    """Each root with the root at the end of its chain of hooks, which is hooked to itself."""
    while True:
        further = _replaced(hooks, "joined", hooks)
        if further.equals(hooks):
            return hooks
        hooks = further


def _replaced(rows: pl.DataFrame, column: str, labels: pl.DataFrame) -> pl.DataFrame:
    """`rows` in their order, with each root of a column replaced by its label. A root without a label stays.

    Args:
        labels: columns `root_id` and `joined`, the label.
    """
    named = labels.select(pl.col("root_id").alias(column), label="joined")
    found = rows.join(named, on=column, how="left", maintain_order="left")
    return found.with_columns(pl.coalesce("label", column).alias(column)).select(rows.columns)

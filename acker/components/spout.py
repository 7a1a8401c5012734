"""Spouts at work: a batch's messages from the source, each with the root of its attempt."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import polars as pl
import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from acker.components.bad_parts import Frames
from acker.components.base import BadRows, Component, Work
from acker.components.columns import check_columns
from acker.components.mistakes import telling_who
from acker.components.searched import failed, found_in, others
from acker.core.events import Kind, State
from acker.core.messages import POSITION
from acker.core.quoting import sql_name
from acker.core.snapshot.inputs import Replay, SourceRange
from acker.core.snapshot.journal import Journal
from acker.core.snapshot.ledger import settled_rows
from acker.core.snapshot.replays import messages_of, positions_of
from acker.core.snapshot.trims import newest_trim
from acker.core.store.commits import commit_rows
from acker.core.store.ids import root_ids
from acker.core.store.parquet import collect
from acker.core.store.schemas import SPOUT_COLUMNS, stream
from acker.spark.columns import root_id
from acker.spark.streams import CountDiffers, user_columns
from acker.spouts import History, NamesGone, ReadsLocally, Spout
from acker.spouts.base import MOST_MESSAGES, REPORTED, CountsMessages, PassesOver, check_reserved

GONE = "the source no longer holds this message"
LATE = "what it added to an aggregate was trimmed and cannot be taken back"


@dataclass(frozen=True, kw_only=True)
class SpoutComponent(Component):
    """A spout.

    Args:
        reliable: which messages are tracked: all, none, or those for which a SQL condition holds.
    """

    source: Spout
    reliable: bool | str = True

    is_spout: ClassVar[bool] = True
    way: ClassVar[str] = "give the spout its former schema, or another name, under which it begins anew"

    @property
    def doc(self) -> str:
        """See `Component`."""
        return repr(self.source)

    @property
    def may_be_untracked(self) -> bool:
        """See `Component`."""
        return self.reliable is not True

    def write(self, work: Work) -> None:
        """See `Component`. A replay of a few messages is written without Spark, where the source allows it.

        Where the batch raises, the parts of the source that cannot be read are passed over.
        """
        table = work.journal.open(stream(self.name))
        with telling_who("Spout", self.name):
            rows = None if table is None else self._local_rows(work, pa.schema(table.schema().to_arrow()))
        if table is not None and rows is not None:
            commit_rows(table, rows, self.name, work.batch.number)
            return
        try:
            super().write(work)
        except (PySparkException, CountDiffers):
            readable = self._without_unreadable(work)
            if readable is None:
                raise
            super(SpoutComponent, readable).write(work)

    def _without_unreadable(self, work: Work) -> "SpoutComponent | None":
        """The spout without the parts of a batch that its source cannot read.

        None where the source can read all parts, or cannot pass over any.
        """
        if not isinstance(self.source, PassesOver):
            return None
        planned, counts = work.batch.input, self._planned(work)
        if isinstance(planned, SourceRange):
            partitions = list(self.source.ends(planned.described))
        else:
            partitions = messages_of(work.journal.store, work.batch)["source_partition"].unique().to_list()

        def read(source: Spout) -> DataFrame:
            return replace(self, source=source)._messages(work)[self.name]

        source = self.source.passing_over(partitions, read, counts)
        return None if source is None else replace(self, source=source)

    def planned_rows(self, work: Work) -> int | None:
        """See `Component`."""
        counts = self._planned(work)
        return None if counts is None else sum(counts.values())

    def _planned(self, work: Work) -> Mapping[str, int] | None:
        """Partition -> how many messages of it a batch has by its plan; None where the plan does not say."""
        planned = work.batch.input
        if not isinstance(planned, SourceRange) or not isinstance(self.source, CountsMessages):
            return None
        return self.source.message_counts(planned.described)

    def rows(self, work: Work, bad: BadRows) -> DataFrame:
        """See `Component`."""
        messages = self._messages(work)
        made = self._checked(work, others(messages, bad))
        if not bad:
            return made
        reasons = failed(work.spark, bad)
        told = messages[self.name].select("_root_id", *SPOUT_COLUMNS).join(F.broadcast(reasons), "_root_id")
        return made.unionByName(told, allowMissingColumns=True)

    def find_bad_rows(self, work: Work, bad: BadRows, error: PySparkException) -> BadRows:
        """See `Component`. The batch is searched (`acker.components.bad_rows`)."""
        messages = others(self._messages(work), bad)
        return {**bad, **found_in(self, work, messages, self._checked, error)}

    def _messages(self, work: Work) -> Frames:
        """The batch's messages as its source has them, with the roots of their attempts."""
        planned = work.batch.input
        if isinstance(planned, SourceRange):
            own = {"_attempt": F.lit(1), "_replaces": F.lit(None).cast("bigint")}
            found = self.source.read_range(work.spark, planned.described).withColumns(own)
            self._check_names(set(found.columns) - set(own))
        else:
            found = self._replayed(work)
        root = root_id(work.topology, self.name, work.batch.number, F.col("_attempt"))
        return {self.name: found.withColumn("_root_id", root)}

    def _checked(self, work: Work, messages: Frames) -> DataFrame:
        """Messages as tuples, those that a target would refuse as failures."""
        found = messages[self.name]
        columns = user_columns(found)
        check_columns("Spout", self.name, columns)
        kind, error = _reported(found)
        if "_late" in found.columns:
            kind = F.when(F.col("_late"), Kind.FAIL.value).otherwise(kind)
            error = F.when(F.col("_late"), LATE).otherwise(error)
        root = F.col("_root_id")
        if isinstance(work.batch.input, SourceRange) and self.reliable is not True:
            root = F.when(self._is_tracked(kind), root)
        rows = found.select(
            root.alias("_root_id"),
            kind.alias("_kind"),
            error.alias("_error"),
            *SPOUT_COLUMNS,
            *map(sql_name, columns),
        )
        return work.check(rows)

    def no_tuples(self, work: Work, further: str) -> DataFrame:
        """See `Component`."""
        frame = work.spark.createDataFrame([], self.source.message_schema(work.spark))
        return frame.withColumn("_root_id", F.lit(None).cast("bigint"))

    def _is_tracked(self, kind: Column) -> Column:
        """Whether a message is tracked.

        If a SQL condition decides this, a message whose columns cannot be read is tracked as well.

        Args:
            kind: the column `_kind`, which is not null for a message that cannot be read.
        """
        if isinstance(self.reliable, str):
            return kind.isNotNull() | F.expr(self.reliable)
        return F.lit(self.reliable)

    def _local_rows(self, work: Work, columns: pa.Schema) -> pa.Table | None:
        """A replay's batch as it is to lie in the spout's stream; None where Spark had better make it.

        Args:
            columns: the columns of the stream.
        """
        planned = work.batch.input
        if not isinstance(planned, Replay) or planned.count > MOST_MESSAGES or work.is_published:
            return None
        if not isinstance(self.source, ReadsLocally) or _reads_back_otherwise(self.source):
            return None
        wanted = messages_of(work.journal.store, work.batch)
        read = self.source.read_locally(positions_of(wanted), history(work.journal, self.name))
        if read is None:
            return None
        emissions = _with_late(work, wanted)
        emissions = emissions.with_columns(root_ids(work.topology, self.name, work.batch.number, emissions))
        return _as_in_stream(emissions, read, work.batch.number, columns, self._gone)

    @property
    def _gone(self) -> str:
        return self.source.gone if isinstance(self.source, NamesGone) else GONE

    def _check_names(self, columns: Iterable[str]) -> None:
        """Refuse columns of a source that no stream would have, since they look like the system's own."""
        check_reserved(f"Spout {self.name}", set(columns) - REPORTED)

    def _replayed(self, work: Work) -> DataFrame:
        """The batch's messages, read back from the source; messages that it no longer holds are `lost`."""
        wanted = messages_of(work.journal.store, work.batch)
        known = history(work.journal, self.name)
        read = self.source.read_positions(work.spark, positions_of(wanted), known)
        self._check_names(read.columns)
        named = _with_late(work, wanted).select(pl.all().name.prefix("_"))
        asked = work.spark.createDataFrame(named.to_arrow())
        found = read.withColumn("_found", F.lit(True))
        joined = F.broadcast(asked).join(found, ["_source_partition", "_source_offset"], "left")
        gone = F.col("_found").isNull()
        kind, error = _reported(read)
        return joined.withColumns(
            {
                "_kind": F.when(gone, Kind.LOST.value).otherwise(kind),
                "_error": F.when(gone, self._gone).otherwise(error),
            }
        ).drop("_found")


def _as_in_stream(
    emissions: pl.DataFrame, read: pa.Table, batch: int, columns: pa.Schema, why_gone: str
) -> pa.Table | None:
    """The rows of emissions; None where the stream lacks a column of theirs, or has it in another type.

    Args:
        emissions: `EMISSIONS`, root_id and perhaps late.
        read: the messages of the emissions, as `ReadsLocally` gives them.
        columns: the columns of the stream.
        why_gone: the reason of messages that are not among those read.
    """
    there = pl.DataFrame(read.select([f"_{name}" for name in POSITION]).rename_columns(POSITION))
    found = emissions.join(there.with_row_index("at"), on=POSITION, how="left")
    late = pl.col("late") if "late" in found.columns else pl.lit(False)
    gone = pl.col("at").is_null()
    kind = pl.when(late).then(pl.lit(Kind.FAIL.value)).when(gone).then(pl.lit(Kind.LOST.value))
    error = pl.when(late).then(pl.lit(LATE)).when(gone).then(pl.lit(why_gone))
    made = found.select(
        _batch=pl.lit(batch, pl.Int64),
        _root_id="root_id",
        _kind=kind,
        _error=error,
        **{column: column.removeprefix("_") for column in SPOUT_COLUMNS},
    ).to_arrow()
    rows = made.cast(pa.schema([columns.field(name) for name in made.column_names]))
    at = found["at"].to_arrow()
    for name in read.column_names:
        if name not in made.column_names:
            rows = rows.append_column(name, read[name].take(at))
    known = {field.name: field.type for field in columns}
    return rows if all(known.get(field.name) == field.type for field in rows.schema) else None


def _reads_back_otherwise(source: ReadsLocally) -> bool:
    """Whether a subclass has its own `read_positions`, of which an inherited `read_locally` does not know."""
    classes = type(source).__mro__
    of_few, of_all = (
        next((each for each in classes if name in vars(each)), object)
        for name in ("read_locally", "read_positions")
    )
    return not issubclass(of_few, of_all)


def history(journal: Journal, spout: str) -> History:
    """The ranges that a spout has planned so far."""
    newest = journal.newest_of(spout, "next")
    described = newest.input.described if newest and isinstance(newest.input, SourceRange) else None
    return History(described, lambda: journal.described(spout, journal.planned(spout)))


def _reported(read: DataFrame) -> tuple[Column, Column]:
    """A source's report of each message: `_kind` and `_error`, null where there is nothing to report."""
    nothing = F.lit(None).cast("string")
    kind, error = (F.col(name) if name in read.columns else nothing for name in ("_kind", "_error"))
    return kind, error


def _with_late(work: Work, messages: pl.DataFrame) -> pl.DataFrame:
    """Messages of a replay, with a column `late` that marks the late ones, if there are any.

    A message is late if a trimming may have deleted the tuples of its acked attempt. Then no published table
    can take back the values that these tuples added to it. A replay of late messages is rejected, but a
    trimming may begin between the choice and the plan.

    This function is called after the plan is committed. It sees a trimming that was announced before its
    call. A trimming that is announced later sees the plan, since it looks for plans before it deletes.
    """
    trim = newest_trim(work.journal.store)
    if not trim.number or not work.batch.replay.replaces or not work.takes_back:
        return messages
    replaced = messages.lazy().select(root_id="replaces").drop_nulls()
    acked = settled_rows(work.journal.fold).filter(pl.col("state") == State.ACKED)
    gone = pl.col("batch") <= pl.col("spout").replace_strict(trim.upto, default=0, return_dtype=pl.Int64)
    late = collect(acked.join(replaced, on="root_id", how="semi").filter(gone).select("root_id"))
    if late.is_empty():
        return messages
    return messages.with_columns(late=pl.col("replaces").is_in(late["root_id"].implode()).fill_null(False))

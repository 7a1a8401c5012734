"""The messages of a day: by the time of their first emission, or by the day that they say themselves.

A message says its day in a column, or in the name of a folder such as `day=2026-01-31`, where the source is
files. A column may hold dates, times, or texts or numbers that begin with the day: 2026-01-31, 20260131.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta

import polars as pl

from acker.core.errors import SettingsError
from acker.core.messages import MESSAGE
from acker.core.names import did_you_mean
from acker.core.quoting import column_name
from acker.core.snapshot.ledger import Fold, live_rows, settled_rows
from acker.core.snapshot.snapshot import Snapshot
from acker.core.store.parquet import collect
from acker.core.store.schemas import stream
from acker.core.store.tables import query
from acker.operations.selection.conditions import columns_of_spout, looked_up

_DAY = "^[0-9]{4}(0[1-9]|1[0-2])(0[1-9]|[12][0-9]|3[01])$"  # of the first characters, without hyphens
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"  # of a folder's key whose column is null


def first_emitted(fold: Fold, day: date) -> pl.LazyFrame:
    """The messages whose first attempt was emitted on a day, in UTC.

    However often a message is emitted again, it stays with the day on which it came first.
    """
    begin = datetime.combine(day, time(), UTC)
    is_of_day = pl.col("emitted_at").is_between(begin, begin + timedelta(days=1), closed="left")
    rows = pl.concat([live_rows(fold), settled_rows(fold)]).filter(pl.col("root_id").is_not_null())
    return rows.filter(is_of_day, pl.col("attempt") == 1).select(MESSAGE).unique()


@dataclass(frozen=True)
class OwnDays:
    """The days that messages say themselves.

    Args:
        day: the day that is looked for.
        column: the name of the column, and of a folder's key.
        told: spouts with such a column.
        rows: the messages of these spouts, with `holds`: whether they are of the day.
    """

    day: date
    column: str
    told: Sequence[str]
    rows: pl.LazyFrame

    @classmethod
    def of(cls, snapshot: Snapshot, spouts: Sequence[str], column: str, day: date) -> "OwnDays":
        """Read the days that the streams of some spouts say.

        Raises:
            SettingsError: a column holds a value that is no day.
        """
        columns = {spout: columns_of_spout(snapshot, spout) for spout in spouts}
        told = [spout for spout in spouts if column in columns[spout]]
        rows = [_of_spout(snapshot, spout, column, day) for spout in told]
        nothing = pl.LazyFrame(schema={**dict.fromkeys(MESSAGE[:2], pl.String), "source_offset": pl.Int64})
        return cls(day, column, told, pl.concat([nothing.with_columns(holds=pl.lit(False)), *rows]))

    def judged(self, messages: pl.LazyFrame) -> pl.LazyFrame:
        """The messages that say a day, with `holds`: whether it is `day`; null where that is not known."""
        in_folder = _begins(self._in_path) == f"{self.day:%Y%m%d}"
        return (
            messages.filter(self._in_path.is_not_null() | pl.col("spout").is_in(list(self.told)))
            .join(self.rows, on=MESSAGE, how="left")
            .with_columns(holds=pl.coalesce(in_folder, "holds"))
        )

    @property
    def _in_path(self) -> pl.Expr:
        """The value that a folder of a message's path has for the column; null where no folder has one."""
        return pl.col("source_partition").str.extract(f"(?:^|/){re.escape(self.column)}=([^/]*)/")

    def check_known(self, messages: pl.LazyFrame, snapshot: Snapshot, spouts: Sequence[str]) -> None:
        """Refuse a column that no message has, and folders whose value is no day.

        Args:
            messages: all messages.

        Raises:
            SettingsError: no message has the column, or a folder's value is no day.
        """
        folders = messages.select(self._in_path.alias("held")).drop_nulls()
        no_day = ~_begins(pl.col("held")).str.contains(_DAY) & (pl.col("held") != _NO_VALUE)
        for (held,) in collect(folders.filter(no_day).head(1)).iter_rows():
            raise _no_day(f"A folder of a source is called {f'{self.column}={held}'!r:.100}")
        if self.told or not collect(self.judged(messages).head(1)).is_empty():
            return
        known = sorted({name for spout in spouts for name in columns_of_spout(snapshot, spout)})
        raise SettingsError(
            f"No spout has emitted a column {self.column}, and no folder of a source is called "
            f"{self.column}=…: nobody can tell which messages are of a day. The columns are "
            f"{', '.join(known) or 'none'}.{did_you_mean(self.column, known)}"
        )


def _of_spout(snapshot: Snapshot, spout: str, column: str, day: date) -> pl.LazyFrame:
    """The messages in a spout's stream, and whether they are of the day.

    Raises:
        SettingsError: the column holds a value that is no day.
    """
    name = column_name(column)
    own = f"substr(replace(CAST({name} AS VARCHAR), '-', ''), 1, 8)"
    found = looked_up(snapshot, spout, f"{own} = '{day:%Y%m%d}'")
    others = query(
        f"SELECT CAST({name} AS VARCHAR) AS held FROM stream WHERE NOT regexp_like({own}, '{_DAY}') LIMIT 1",
        stream=snapshot.require(stream(spout)),
    )
    for row in others:
        raise _no_day(f"The column {column} of {spout} holds {row['held']!r:.100}")
    return found.lazy().select(pl.lit(spout).alias("spout"), "source_partition", "source_offset", "holds")


def _begins(texts: pl.Expr) -> pl.Expr:
    """The first eight characters of texts, without hyphens."""
    return texts.str.replace_all("-", "", literal=True).str.slice(0, 8)


def _no_day(what: str) -> SettingsError:
    return SettingsError(
        f"{what}, which begins with no day. Days are dates, times, or texts and numbers such as 2026-01-31 "
        "and 20260131; choose another column."
    )

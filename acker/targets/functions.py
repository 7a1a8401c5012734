"""Running aggregates of a published table: how a tuple enters one, and how it leaves again.

A message that is replayed after it was acked is published anew, so an aggregate is exact only where a
tuple's contribution can be taken back. Counts and sums can; a minimum or maximum cannot, and a replay
of acked messages is refused where one is published.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Protocol, runtime_checkable

import polars as pl
from pyspark.sql import Column
from pyspark.sql import functions as F

from acker.core.arguments import checked
from acker.core.errors import TopologyError
from acker.core.names import did_you_mean
from acker.core.quoting import sql_name
from acker.core.store.schemas import component_of

_EXACT = ("tinyint", "smallint", "int", "bigint", "decimal")


def check_column(what: str, stream: str, column: str, types: Mapping[str, str]) -> str:
    """The type of a column of a stream that is published.

    Args:
        what: that needs the column.

    Raises:
        TopologyError: the stream does not have it.
    """
    if column not in types:
        raise TopologyError(
            f"{what} of what {stream} publishes: {stream} has no column {column}; it has "
            f"{', '.join(types) or 'none'}.{did_you_mean(column, types)}",
            component=component_of(stream),
        )
    return types[column]


def check_order(what: str, stream: str, column: str, types: Mapping[str, str]) -> None:
    """Refuse a column whose values cannot be compared.

    Raises:
        TopologyError: it is such, or the stream does not have it.
    """
    found = check_column(what, stream, column, types)
    if any(f"{kind}<" in found or found == kind for kind in ("map", "variant")):
        raise TopologyError(
            f"{what} needs a column whose values can be compared, and {stream} has it as {found}; make it "
            "text in the bolt.",
            component=component_of(stream),
        )


class Aggregate(Protocol):
    """One aggregated column of a published table."""

    @property
    def reversible(self) -> bool:
        """Whether a contribution can be taken back."""

    def of(self, sign: Column, types: Mapping[str, str]) -> Column:
        """The aggregation over tuples, each entering (`sign` 1) or leaving (`sign` −1).

        Args:
            types: of the stream's columns, as Spark's simple strings.
        """

    def merge(self, kept: str, added: str) -> str:
        """SQL that combines the table's value with that of the tuples added."""

    def check(self, stream: str, types: dict[str, str]) -> None:
        """Raise TopologyError where the column types of a stream (Spark's simple strings) cannot serve."""


@runtime_checkable
class Recomputed(Protocol):
    """An aggregate that the audit computes again without Spark. Of others it compares the tuples' number."""

    def fits(self, types: pl.Schema) -> bool:
        """Whether it can be made of columns of these types."""

    def over(self, types: pl.Schema) -> pl.Expr:
        """The aggregation over tuples, whose columns have `types`."""

    def together(self, kept: str, kind: pl.DataType) -> pl.Expr:
        """The aggregation over a column of its own values, which is of a type."""


@checked
@dataclass(frozen=True)
class Count:
    """How many tuples."""

    reversible: ClassVar[bool] = True

    def of(self, sign: Column, types: Mapping[str, str]) -> Column:
        """See `Aggregate`."""
        return F.sum(sign.cast("bigint"))

    def merge(self, kept: str, added: str) -> str:
        """See `Aggregate`."""
        return f"{kept} + {added}"

    def check(self, stream: str, types: dict[str, str]) -> None:
        """Every stream can be counted."""

    def fits(self, types: pl.Schema) -> bool:
        """See `Recomputed`."""
        return True

    def over(self, types: pl.Schema) -> pl.Expr:
        """See `Recomputed`."""
        return pl.len().cast(pl.Int64)

    def together(self, kept: str, kind: pl.DataType) -> pl.Expr:
        """See `Recomputed`."""
        return pl.col(kept).sum()


@checked
@dataclass(frozen=True)
class Sum:
    """Sum of an integer or decimal column; null counts as 0.

    A sum of bigint is a decimal(38,0), which does not run over, and one of decimals has 38 digits as well.
    Where a table has the column as bigint already, it stays that.
    """

    column: str
    reversible: ClassVar[bool] = True

    def of(self, sign: Column, types: Mapping[str, str]) -> Column:
        """See `Aggregate`."""
        value, total = F.col(sql_name(self.column)), _total(types[self.column])
        if types[self.column] == "bigint":
            value = value.cast("decimal(20,0)")
        # Where a sign were a factor Spark would round a decimal of many digits.
        signed = F.when(sign < 0, -value).otherwise(value)
        return F.coalesce(F.sum(signed).cast(total), F.lit(0).cast(total))

    def merge(self, kept: str, added: str) -> str:
        """See `Aggregate`."""
        return f"{kept} + {added}"

    def check(self, stream: str, types: dict[str, str]) -> None:
        """A sum of floating-point numbers depends on their order, so it could not be taken back exactly."""
        found = check_column(f"Sum({self.column!r})", stream, self.column, types)
        if not found.startswith(_EXACT):
            raise TopologyError(
                f"Sum({self.column!r}) needs an integer or decimal column, and {stream} has it as {found}; "
                "cast it in the bolt.",
                component=component_of(stream),
            )

    def fits(self, types: pl.Schema) -> bool:
        """See `Recomputed`."""
        return True

    def over(self, types: pl.Schema) -> pl.Expr:
        """See `Recomputed`."""
        kind = types[self.column]
        wide: pl.DataType = pl.Int64()
        if isinstance(kind, pl.Decimal | pl.Int64):
            wide = pl.Decimal(38, kind.scale if isinstance(kind, pl.Decimal) else 0)
        return pl.col(self.column).cast(wide).sum()

    def together(self, kept: str, kind: pl.DataType) -> pl.Expr:
        """See `Recomputed`."""
        return pl.col(kept).sum()


def _total(kind: str) -> str:
    """The type of a sum of values of a type."""
    if kind.startswith("decimal"):
        return f"decimal(38,{kind.rpartition(',')[2]}"
    return "decimal(38,0)" if kind == "bigint" else "bigint"


@dataclass(frozen=True)
class _Extreme:
    column: str
    reversible: ClassVar[bool] = False

    def check(self, stream: str, types: dict[str, str]) -> None:
        """See `Aggregate`."""
        check_order(f"{type(self).__name__}({self.column!r})", stream, self.column, types)

    def fits(self, types: pl.Schema) -> bool:
        """See `Recomputed`. Nested values have another order in Spark than here."""
        return not types[self.column].is_nested()


@checked
@dataclass(frozen=True)
class Min(_Extreme):
    """Smallest value of a column. Cannot be taken back."""

    def of(self, sign: Column, types: Mapping[str, str]) -> Column:
        """See `Aggregate`."""
        return F.min(sql_name(self.column))

    def merge(self, kept: str, added: str) -> str:
        """See `Aggregate`."""
        return f"least({kept}, {added})"

    def over(self, types: pl.Schema) -> pl.Expr:
        """See `Recomputed`."""
        return self.together(self.column, types[self.column])

    def together(self, kept: str, kind: pl.DataType) -> pl.Expr:
        """See `Recomputed`."""
        return pl.col(kept).min()  # which is NaN where there is nothing else, as Spark's


@checked
@dataclass(frozen=True)
class Max(_Extreme):
    """Largest value of a column. Cannot be taken back."""

    def of(self, sign: Column, types: Mapping[str, str]) -> Column:
        """See `Aggregate`."""
        return F.max(sql_name(self.column))

    def merge(self, kept: str, added: str) -> str:
        """See `Aggregate`."""
        return f"greatest({kept}, {added})"

    def over(self, types: pl.Schema) -> pl.Expr:
        """See `Recomputed`."""
        return self.together(self.column, types[self.column])

    def together(self, kept: str, kind: pl.DataType) -> pl.Expr:
        """See `Recomputed`."""
        return pl.col(kept).nan_max() if kind.is_float() else pl.col(kept).max()  # NaN is Spark's largest

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
from acker.core.stream_names import component_of

_EXACT = ("tinyint", "smallint", "int", "bigint", "decimal")


def check_column(what: str, stream: str, column: str, types: Mapping[str, str]) -> str:
    """The type of a column of a stream that is published.

    Args:
        what: the name of the part that needs the column, for the error.

    Raises:
        TopologyError: the stream does not have the column.
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
        TopologyError: the column has such values, or the stream does not have it.
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
        """Whether the contribution of a tuple can be taken back."""

    def of(self, sign: Column, types: Mapping[str, str]) -> Column:
        """Make Spark's aggregation over tuples, each entering (`sign` 1) or leaving (`sign` −1).

        Args:
            sign: the column with the sign of each tuple.
            types: the types of the stream's columns, as Spark's simple strings, by name.

        Returns:
            The aggregation.
        """

    def merge(self, kept: str, added: str) -> str:
        """Make the SQL that combines the table's value with that of added tuples.

        Args:
            kept: SQL of the table's value.
            added: SQL of the value of the added tuples.

        Returns:
            SQL of the combined value.
        """

    def check(self, stream: str, types: dict[str, str]) -> None:
        """Refuse a stream whose columns cannot be aggregated.

        Args:
            stream: the stream's name.
            types: the types of its columns, as Spark's simple strings, by name.

        Raises:
            TopologyError: a column is missing, or is of a type that cannot be used.
        """


@runtime_checkable
class Recomputed(Protocol):
    """An aggregate that an audit makes again without Spark.

    Of any other aggregate the audit compares only the number of tuples of each key.
    """

    def fits(self, types: pl.Schema) -> bool:
        """Tell whether the aggregate can be computed from columns of some types.

        Args:
            types: the types of a stream's columns in Polars, by name.

        Returns:
            True where it can be computed.
        """

    def over(self, types: pl.Schema) -> pl.Expr:
        """Make the aggregation of Polars over tuples.

        Args:
            types: the types of the tuples' columns, by name.

        Returns:
            The aggregation.
        """

    def together(self, kept: str, kind: pl.DataType) -> pl.Expr:
        """Make the aggregation of Polars that merges several values of the aggregate into one.

        Args:
            kept: the name of the column with the values.
            kind: the type of that column.

        Returns:
            The aggregation.
        """


@checked
@dataclass(frozen=True)
class Count:
    """The number of tuples.

    Attributes:
        reversible: True: the contribution of a tuple can be taken back.
    """

    reversible: ClassVar[bool] = True

    def of(self, sign: Column, types: Mapping[str, str]) -> Column:
        """See `Aggregate`."""
        return F.sum(sign.cast("bigint"))

    def merge(self, kept: str, added: str) -> str:
        """See `Aggregate`."""
        return f"{kept} + {added}"

    def check(self, stream: str, types: dict[str, str]) -> None:
        """See `Aggregate`. Every stream can be counted."""

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
    """The sum of an integer or decimal column; null counts as 0.

    A sum of bigint is a decimal(38,0), which does not run over, and one of decimals has 38 digits as well.
    Where a table has the column as bigint already, the column stays a bigint. A sum of floating-point numbers
    depends on their order, so no contribution could be taken back exactly.

    Args:
        column: the name of the column.

    Attributes:
        reversible: True: the contribution of a tuple can be taken back.
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
        """See `Aggregate`. A floating-point column is refused."""
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
    """The type of a sum, by the type of the values, as Spark's simple strings."""
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
        """See `Recomputed`. A nested column does not fit, since Spark and Polars order it differently."""
        return not types[self.column].is_nested()


@checked
@dataclass(frozen=True)
class Min(_Extreme):
    """The smallest value of a column.

    Args:
        column: the name of the column.

    Attributes:
        reversible: False: the contribution of a tuple cannot be taken back.
    """

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
    """The largest value of a column.

    Args:
        column: the name of the column.

    Attributes:
        reversible: False: the contribution of a tuple cannot be taken back.
    """

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

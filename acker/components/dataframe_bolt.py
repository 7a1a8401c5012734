"""DataFrame bolts: a function of DataFrames, whose rows keep the anchors of the tuples they came from."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from acker.components.anchors import ANCHOR, ERROR_COLUMN, MERGED, anchored, failure_columns, roots
from acker.components.base import Work
from acker.components.columns import check_columns
from acker.components.function_bolt import Frames, FunctionBolt
from acker.components.mistakes import telling_where
from acker.core.errors import BoltError
from acker.core.quoting import sql_name
from acker.core.store.ids import hash64

DataFrameFunction = Callable[..., DataFrame]


@dataclass(frozen=True, kw_only=True)
class DataFrameBolt(FunctionBolt):
    """A DataFrame bolt.

    Args:
        anchored: whether the tuples that the bolt emits are tracked.
    """

    function: DataFrameFunction
    anchored: bool = True

    def __call__(self, *frames: DataFrame, **named: DataFrame) -> DataFrame:
        """Call the author's function, as if it had not been decorated."""
        return self.function(*frames, **named)

    @property
    def may_be_untracked(self) -> bool:
        """See `Component`."""
        return not self.anchored

    @property
    def takes_all(self) -> bool:
        """See `Component`. Tuples of one message from several streams meet in one batch, to be joined."""
        return len(self.inputs) > 1

    def made_of(self, work: Work, frames: Frames) -> DataFrame:
        """See `FunctionBolt`."""
        salt = hash64(f"{self.name}/{work.batch.number}")
        given = [anchored(frames[name], salt) for name in self.inputs]
        with telling_where(self.name):
            result: Any = self.function(*given)
        if not isinstance(result, DataFrame):
            found = type(result).__name__
            raise BoltError(
                f"Bolt {self.name} must return a DataFrame, not {found}: write `return` before what it "
                "makes, and collect nothing.",
                component=self.name,
            )
        columns = [column for column in result.columns if column not in ("anchor", ERROR_COLUMN)]
        check_columns("Bolt", self.name, columns)
        if not self.anchored:
            return self._unanchored_rows(result, columns)
        anchor = dict(result.dtypes).get("anchor")
        if anchor not in (ANCHOR, MERGED):
            raise BoltError(
                f"Bolt {self.name} must keep the column `anchor` as it came: without it no one can tell "
                'which messages its rows belong to. Add "anchor" to its last select, or after a groupBy '
                "collect_anchors() to its aggregates, or say anchored=False.",
                component=self.name,
            )
        fails = ERROR_COLUMN in result.columns
        kind, error = failure_columns(
            F.col(ERROR_COLUMN) if fails else F.lit(None),
            result.schema[ERROR_COLUMN].dataType if fails else None,
        )
        return result.select(
            *roots(salt, several=anchor == MERGED),
            kind.alias("_kind"),
            error.alias(ERROR_COLUMN),
            *map(sql_name, columns),
        )

    def _unanchored_rows(self, result: DataFrame, columns: list[str]) -> DataFrame:
        if ERROR_COLUMN in result.columns:
            raise BoltError(
                f"Bolt {self.name} is not anchored, so it cannot fail the message of a row: drop `_error`, "
                "or the anchored=False.",
                component=self.name,
            )
        nothing = F.lit(None).cast("string")
        return result.select(
            F.lit(None).cast("bigint").alias("_root_id"),
            nothing.alias("_kind"),
            nothing.alias(ERROR_COLUMN),
            *map(sql_name, columns),
        )

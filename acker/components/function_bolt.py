"""The base of DataFrame and basic bolts: one function. Only the messages of rows that raise fail."""

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from acker.components.base import BadRows, Component, Work
from acker.components.searched import failed, found_in, others
from acker.core.events import Kind
from acker.core.store.schemas import HELD, stream
from acker.spark.streams import rows
from acker.spark.trees import union_of

Frames = Mapping[str, DataFrame]  # input stream -> its tuples


@dataclass(frozen=True, kw_only=True)
class FunctionBolt(Component):
    """A bolt that is one function."""

    function: Callable[..., Any]

    def __post_init__(self) -> None:
        # It stands where its function stood and can be called as that, so it goes by the same name.
        names = ("__module__", "__name__", "__qualname__", "__doc__")
        known = {name: getattr(self.function, name) for name in names if hasattr(self.function, name)}
        vars(self).update(known, __wrapped__=self.function)

    @property
    def doc(self) -> str:
        """See `Component`."""
        return self.function.__doc__ or ""

    @abstractmethod
    def made_of(self, work: Work, frames: Frames) -> DataFrame:
        """The rows that the function makes: roots, `_kind`, `_error` and the user's columns.

        Args:
            frames: per input stream its tuples: `_root_id`, `_root_ids` if it has them, the user's columns.

        Raises:
            BoltError: the function returned no DataFrame with an anchor, or uses reserved names.
        """

    def rows(self, work: Work, bad: BadRows) -> DataFrame:
        """See `Component`."""
        made = self._checked(work, self._frames(work, bad))
        if not bad:
            return made
        return made.unionByName(failed(work.spark, bad), allowMissingColumns=True)

    def no_tuples(self, work: Work, further: str) -> DataFrame:
        """See `Component`."""
        frames = {name: work.tuples(name).where("false") for name in self.inputs}
        return self.made_of(work, frames).where("false")

    def find_bad_rows(self, work: Work, bad: BadRows, error: PySparkException) -> BadRows:
        """See `Component`. The batch is searched (`acker.components.bad_rows`)."""
        return {**bad, **found_in(self, work, self._frames(work, bad), self._checked, error)}

    def _frames(self, work: Work, bad: BadRows) -> Frames:
        return others({name: work.tuples(name) for name in self.inputs}, bad)

    def _checked(self, work: Work, frames: Frames) -> DataFrame:
        parts = [work.check(self.made_of(work, frames)), *self._let_go(work)]
        return union_of(parts, fills=True)

    def _let_go(self, work: Work) -> list[DataFrame]:
        """Rows that fail the tuples which a rich bolt held back before this kind of bolt took its place."""
        table = work.journal.open(stream(self.name))
        if table is None or "_held" not in {field.name for field in table.schema().fields}:
            return []
        before = rows(work.spark, work.journal, self.name, [work.batch.number - 1])
        reason = F.lit(f"bolt {self.name} holds back nothing any more")
        failed = {"_kind": F.lit(Kind.FAIL.value), "_error": reason}
        held = before.where(F.col("_kind") == HELD).select("_root_id").dropna().distinct()
        return [held.withColumns(failed)]

"""Spouts, bolts, and the streams between them, as a topology holds them; and the work of one batch.

There is a class for each kind of component: `SpoutComponent`, `DataFrameBolt`, `BasicBolt` and
`RichBoltComponent`. Each makes the rows of its own batches and writes them.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar, Literal

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from acker.components.mistakes import telling_who
from acker.core.arguments import checked
from acker.core.authors import place
from acker.core.errors import SettingsError
from acker.core.quoting import sql_name
from acker.core.reasons import Redaction
from acker.core.snapshot.journal import Journal
from acker.core.snapshot.planned import Batch
from acker.core.store.schemas import stream
from acker.core.stream_names import component_of, parts_of, stream_name
from acker.spark.reasons import kept
from acker.spark.streams import CAST, append, stamped, tuples, user_columns
from acker.spark.tags import tagged

GroupingKind = Literal["shuffle", "fields", "global", "all"]
BadRows = Mapping[int, str]  # root -> why a row of it raises


@dataclass(frozen=True)
class Grouping:
    """The rule by which a tuple goes to a task of a rich bolt."""

    kind: GroupingKind = "shuffle"
    columns: tuple[str, ...] = ()  # of a fields grouping


class Stream:
    """Base of streams, which bolts can read and which can be published."""

    @property
    def stream_name(self) -> str:
        """A component's name, or `component.stream` for a further stream of it."""
        raise NotImplementedError

    @property
    def owner(self) -> "Component | None":
        """The component that emits the stream; None where the stream is known by its name alone."""
        return None

    def shuffle_grouping(self) -> "Input":
        """Any task of a rich bolt gets a tuple. The default."""
        return Input(self.stream_name, Grouping(), self.owner)

    @checked
    def fields_grouping(self, *columns: str) -> "Input":
        """Tuples that agree in these columns go to the same task of a rich bolt.

        Raises:
            SettingsError: no column is named.
        """
        if not columns:
            raise SettingsError(
                f"fields_grouping of {self.stream_name} names no column{place()}. "
                'Give it one or more, such as fields_grouping("item").'
            )
        return Input(self.stream_name, Grouping("fields", columns), self.owner)

    def global_grouping(self) -> "Input":
        """The first task of a rich bolt gets all tuples."""
        return Input(self.stream_name, Grouping("global"), self.owner)

    def all_grouping(self) -> "Input":
        """Every task of a rich bolt gets every tuple, which is acked when all tasks have acked it."""
        return Input(self.stream_name, Grouping("all"), self.owner)


@dataclass(frozen=True)
class Input(Stream):
    """A stream as a bolt reads it."""

    name: str
    grouping: Grouping | None = None
    of: "Component | None" = field(default=None, compare=False, repr=False)

    @property
    def stream_name(self) -> str:
        """See `Stream`."""
        return self.name

    @property
    def owner(self) -> "Component | None":
        """See `Stream`."""
        return self.of


@dataclass(frozen=True)
class Component(Stream, ABC):
    """A spout or a bolt of one topology."""

    name: str
    inputs: tuple[str, ...] = ()  # the streams that it reads, as `component` or `component.stream`

    is_spout: ClassVar[bool] = False  # it reads a source and not streams
    holds_back: ClassVar[bool] = False  # it may leave tuples to its next batch
    way: ClassVar[str] = CAST  # what to do about a column that its stream has in another type

    @property
    def stream_name(self) -> str:
        """See `Stream`."""
        return self.name

    @property
    def owner(self) -> "Component":
        """See `Stream`."""
        return self

    @property
    @abstractmethod
    def doc(self) -> str:
        """The component's description of itself for people, such as a docstring."""

    @property
    def may_be_untracked(self) -> bool:
        """Whether the component may emit tuples of no message although its inputs are tracked."""
        return False

    @property
    def takes_all(self) -> bool:
        """Whether a batch takes in all rows that there are, however many."""
        return False

    @property
    def streams(self) -> Mapping[str, str]:
        """Name of a further stream of the component -> the DDL of this stream."""
        return {}

    @property
    def upstreams(self) -> tuple[str, ...]:
        """Names of the components whose streams this one reads."""
        return tuple(dict.fromkeys(component_of(name) for name in self.inputs))

    def stream(self, name: str) -> Input:
        """One of the component's named streams."""
        return Input(stream_name(self.name, name), of=self)

    def columns(self, rows: DataFrame, further: str) -> list[str]:
        """The user's columns of one of its streams, whose table may hold other streams as well.

        Args:
            rows: rows of the table.
            further: name of a further stream; empty for the first.
        """
        return user_columns(rows)

    def write(self, work: "Work") -> None:
        """Append a batch's rows to the component's stream, in one commit with the batch's number.

        Rows that raise fail their messages and no others.

        Raises:
            BoltError: the component broke its contract, cannot be run over its inputs, or fails on too many
                messages.
            PySparkException: an error that no message causes.
        """
        batch = work.batch
        bad: BadRows = {}
        with tagged(
            work.spark, topology=work.topology, component=self.name, batch=batch.number, run=batch.run_id
        ):
            while True:
                with telling_who("Spout" if self.is_spout else "Bolt", self.name):
                    table = work.journal.open(stream(self.name))
                    rows = kept(self.rows(work, bad), work.redaction)
                    rows = stamped(rows, table, self.name, batch.number, self.way)
                try:
                    append(rows, work.journal.store, self.name, batch.number, self.planned_rows(work))
                except PySparkException as error:
                    bad = self.find_bad_rows(work, bad, error)
                else:
                    return

    @abstractmethod
    def rows(self, work: "Work", bad: BadRows) -> DataFrame:
        """The rows that a batch adds to the component's stream, without their column `_batch`.

        Args:
            bad: roots that are left out and failed.

        Raises:
            BoltError: the component broke its contract.
        """

    def planned_rows(self, work: "Work") -> int | None:
        """How many rows a batch adds; None where its plan does not say."""
        return None

    @abstractmethod
    def no_tuples(self, work: "Work", further: str) -> DataFrame:
        """An empty frame with `_root_id` and the user's columns of the tuples that go to a stream.

        Args:
            further: name of a further stream; empty for the first.
        """

    def find_bad_rows(self, work: "Work", bad: BadRows, error: PySparkException) -> BadRows:
        """The roots whose rows make a batch raise, together with those that are known already.

        Args:
            bad: the known roots, whose rows are left out already.
            error: the error that the batch raised without these rows.

        Raises:
            BoltError: there are so many such roots that the bolt is taken to be at fault.
            PySparkException: no row is at fault, or the component does not look through its rows.
        """
        raise error


@dataclass(frozen=True)
class Work:
    """The work of a component on one batch, of which it makes the rows.

    Args:
        journal: a snapshot of the store.
        check: turns the rows that a published table would refuse into failures of their messages.
        is_published: whether a published table takes the component's tuples, so that `check` is needed.
        on_search: called before the batch's rows are looked through for bad ones.
        takes_back: whether a published table takes back what replaced messages had added to it.
        redaction: the rule by which reasons lose their secrets before they are kept.
        is_watched: whether a Python bolt tells how its worker ends, which costs a process.
    """

    spark: SparkSession
    topology: str
    components: Mapping[str, Component]
    journal: Journal
    batch: Batch
    check: Callable[[DataFrame], DataFrame]
    is_published: bool
    on_search: Callable[[], None]
    takes_back: bool
    redaction: Redaction
    is_watched: bool = False

    @cached_property
    def taken(self) -> dict[str, list[int]]:
        """Input stream of a bolt's batch -> the batches that it takes in."""
        return self.journal.inputs(self.batch)

    def tuples(self, name: str) -> DataFrame:
        """The tuples of a stream that the batch takes in: their roots and the user's columns.

        A component that never wrote has no stream to tell its columns; then the component itself tells them.
        """
        component, further = parts_of(name)
        if self.journal.open(stream(name)) is not None:
            found = tuples(self.spark, self.journal, name, self.taken.get(name, []))
        else:
            found = self.components[component].no_tuples(self, further)
        roots = [column for column in ("_root_id", "_root_ids") if column in found.columns]
        return found.select(*roots, *map(sql_name, self.columns(found, name)))

    def columns(self, rows: DataFrame, name: str) -> list[str]:
        """The user's columns of a stream among those of its table."""
        return columns_of(self.components, rows, name)


def columns_of(components: Mapping[str, Component], rows: DataFrame, name: str) -> list[str]:
    """The user's columns of a stream, also of a component that is gone."""
    component, further = parts_of(name)
    found = components.get(component)
    return user_columns(rows) if found is None else found.columns(rows, further)

"""Spouts, bolts, and the streams between them, as a topology holds them."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from pyspark.sql import DataFrame

from acker.components.collector import RichBolt
from acker.core.schemas import component_of
from acker.spouts import Spout

DataFrameFunction = Callable[..., DataFrame]
TupleFunction = Callable[[Any], Iterable[Any] | None]
GroupingKind = Literal["shuffle", "fields", "global", "all"]


@dataclass(frozen=True)
class Grouping:
    """Which task of a rich bolt gets a tuple."""

    kind: GroupingKind = "shuffle"
    columns: tuple[str, ...] = ()  # of a fields grouping


class Stream:
    """What bolts can read and what can be published."""

    @property
    def stream_name(self) -> str:
        """A component's name, or `component.stream` for a further stream of it."""
        raise NotImplementedError

    def shuffle_grouping(self) -> "Input":
        """Any task of a rich bolt gets a tuple. The default."""
        return Input(self.stream_name, Grouping())

    def fields_grouping(self, *columns: str) -> "Input":
        """Tuples that agree in these columns go to the same task of a rich bolt."""
        return Input(self.stream_name, Grouping("fields", columns))

    def global_grouping(self) -> "Input":
        """The first task of a rich bolt gets all tuples."""
        return Input(self.stream_name, Grouping("global"))

    def all_grouping(self) -> "Input":
        """Every task of a rich bolt gets every tuple, which is acked when all tasks have acked it."""
        return Input(self.stream_name, Grouping("all"))


@dataclass(frozen=True)
class Input(Stream):
    """A stream as a bolt reads it."""

    name: str
    grouping: Grouping | None = None

    @property
    def stream_name(self) -> str:
        """See `Stream`."""
        return self.name


@dataclass(frozen=True)
class Component(Stream):
    """A spout or a bolt of one topology."""

    name: str
    inputs: tuple[str, ...] = ()  # the streams that it reads, as `component` or `component.stream`
    source: Spout | None = None  # on a spout
    reliable: bool | str = True  # on a spout: which messages are tracked, in SQL if not all or none
    function: DataFrameFunction | TupleFunction | None = None  # on a DataFrame or basic bolt
    anchored: bool = True  # on a DataFrame bolt: whether its tuples are tracked
    make: Callable[[], RichBolt] | None = None  # on a rich bolt
    groupings: tuple[Grouping, ...] = ()  # on a rich bolt, one per input
    tasks: int = 1  # on a rich bolt
    schema: str | None = None  # DDL of what a basic or rich bolt emits
    streams: Mapping[str, str] = field(default_factory=dict)  # on a rich bolt: further stream -> DDL

    @property
    def stream_name(self) -> str:
        """See `Stream`."""
        return self.name

    @property
    def is_spout(self) -> bool:
        """Whether it reads a source and not streams."""
        return self.source is not None

    @property
    def doc(self) -> str:
        """What it says of itself to people."""
        if self.is_spout:
            return repr(self.source)
        return (self.function or self.make).__doc__ or ""

    @property
    def upstreams(self) -> tuple[str, ...]:
        """Names of the components whose streams it reads."""
        return tuple(dict.fromkeys(component_of(name) for name in self.inputs))

    def stream(self, name: str) -> Input:
        """One of the component's named streams."""
        return Input(f"{self.name}.{name}")

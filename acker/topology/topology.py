"""Topologies: spouts, bolts, their connections and their publications. Building one needs no Spark session.

Components and publications are checked as they are added. The graph as a whole is checked by `validate`,
which every command calls before it does anything else.
"""

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING, TypeVar

from acker.components.base import Component, Grouping, Stream
from acker.components.basic_bolt import BasicBolt, TupleFunction
from acker.components.callables import check_called, check_done, check_rich_bolt
from acker.components.collector import RichBolt
from acker.components.dataframe_bolt import DataFrameBolt, DataFrameFunction
from acker.components.rich_bolt import RichBoltComponent
from acker.components.spout import SpoutComponent
from acker.core.arguments import checked, checked_decorator
from acker.core.authors import place
from acker.core.ddl import check_schema
from acker.core.errors import SettingsError, TopologyError
from acker.core.names import did_you_mean
from acker.core.retry import ExponentialBackoff, RetryPolicy
from acker.core.snapshot.planned import Role
from acker.core.stream_names import component_of, edge, parts_of, stream_name
from acker.core.timeouts import DEFAULT_WINDOWS, Timeouts
from acker.spouts import Spout
from acker.targets.base import Target
from acker.targets.functions import Aggregate
from acker.topology.argument_checks import (
    bolt_name,
    check_aggregates,
    check_name,
    check_ungrouped,
    day_column_of,
    duration_of,
    grouping_of,
    is_nested,
    naming,
    redaction_of,
    target_of,
)
from acker.topology.hooks import Hook, HookFunction
from acker.topology.schedule import checked_schedule

if TYPE_CHECKING:
    from acker.targets.kafka import KafkaTarget

DEFAULT_BATCH_ROWS = 100_000
DEFAULT_MAX_PENDING = 10_000_000  # of ten tuples each they are 1.2 GB of streams and events
_MOST_TASKS = 1_000
_MOST_ROWS = 2**31 - 1  # the largest limit that Spark takes

AnyComponent = TypeVar("AnyComponent", bound=Component)


@dataclass(frozen=True)
class Publication:
    """A stream, and the target where its tuples appear once their messages are acked."""

    stream: str  # a component's name, or `component.stream`
    target: Target

    @property
    def to(self) -> str:
        """Path or URI of the target."""
        return self.target.uri


@checked
class Topology:
    """A named graph of spouts and bolts.

    Args:
        name: lower case letters, digits and underscores; it names the topology's folder in the store.
        message_timeout: a timedelta, a text such as "10 minutes", or None for no timeouts.
        windows: the number of windows into which message_timeout is divided, by which the age of messages is
            counted; see `acker.core.timeouts.Timeouts`.
        hard_timeout: the age past which a message times out even where its tuples wait for a bolt, written as
            message_timeout; see `acker.core.timeouts.Timeouts`.
        retry: the policy by which failed messages are tried again; the default retries three times.
        reliable: whether messages are tracked. False tracks none, as Storm does without ackers: tuples that
            fail are gone, and emitted tuples are published with the next fold.
        max_pending: the number of messages in flight at which a spout stops reading new ones; None: it never
            stops.
        batch_rows: about how many rows one batch of a component takes in, of each of its inputs. A DataFrame
            bolt with several inputs takes in all that waits.
        schedule: when Airflow runs the topology: a cron expression in UTC, a preset such as "@hourly", or
            a list of names or URIs of assets, which waits until all of them were updated. None: as
            `PIPELINE_RUN_SCHEDULE` says. Airflow also runs the topology when a replay has emitted messages.
        one_task: whether Airflow runs all components in one task, which costs less where batches are small,
            instead of in one task each.
        expects: the time in which each spout reads something new as a rule, written as message_timeout. The
            monitor tells of a spout that has not. None: a spout may take any time.
        reprocess_by: the column in which messages say their day, as dates, times, or texts or numbers such as
            2026-01-31 and 20260131, or the key of folders such as `day=2026-01-31`. Airflow's backfill of
            `<topology>.reprocess` chooses messages by it. None: the day on which a message was first emitted.
        redact: a regular expression of Python's, or several. Each match in the reason of a failure or of a
            hold is replaced by `***` before the reason is written anywhere.

    Attributes:
        timeouts: the timeouts that `message_timeout`, `windows` and `hard_timeout` make.
        redaction: the redaction of reasons that `redact` makes.
        components: the spouts and bolts by name, in the order in which they were added.
        publications: the publications by stream.
        hooks: the functions of each kind of hook, in the order in which they were added.

    Raises:
        TopologyError: the name is not usable, or `redact` has no regular expression that serves.
        SettingsError: a number or duration is out of range, `schedule` is no schedule, or `reprocess_by`
            names no column.
    """

    def __init__(
        self,
        name: str,
        *,
        message_timeout: timedelta | str | None = "10 minutes",
        windows: int = DEFAULT_WINDOWS,
        hard_timeout: timedelta | str | None = None,
        retry: RetryPolicy | None = None,
        reliable: bool = True,
        max_pending: int | None = DEFAULT_MAX_PENDING,
        batch_rows: int = DEFAULT_BATCH_ROWS,
        schedule: str | Iterable[str] | None = None,
        one_task: bool = False,
        expects: timedelta | str | None = None,
        redact: str | Iterable[str] | None = None,
        reprocess_by: str | None = None,
    ) -> None:
        check_name("topology", name)
        for what, number in (("max_pending", max_pending), ("batch_rows", batch_rows)):
            if number is not None and not 1 <= number <= _MOST_ROWS:
                raise SettingsError(f"{what} of topology {name} must be 1 to {_MOST_ROWS:,}, not {number}.")
        self.name = name
        most = duration_of(f"message_timeout of topology {name}", message_timeout)
        hard = duration_of(f"hard_timeout of topology {name}", hard_timeout)
        with naming(f"Topology {name}"):
            self.timeouts = Timeouts(most, windows, hard)
        self.retry: RetryPolicy = ExponentialBackoff() if retry is None else retry
        self.reliable = reliable
        self.max_pending = max_pending
        self.batch_rows = batch_rows
        self.schedule = checked_schedule(name, schedule)
        self.one_task = one_task
        self.expects = duration_of(f"expects of topology {name}", expects)
        self.redaction = redaction_of(name, redact)
        self.reprocess_by = day_column_of(name, reprocess_by)
        self.components: dict[str, Component] = {}
        self.publications: dict[str, Publication] = {}  # by stream
        self.hooks: dict[Hook, list[HookFunction]] = {}

    @checked
    def spout(self, name: str, source: Spout, reliable: bool | str = True) -> SpoutComponent:
        """Add a spout that reads `source`.

        Args:
            name: the spout's name: lower case letters, digits and underscores, a letter first.
            source: the source of the messages, such as a `FileSpout`.
            reliable: which messages are tracked: all, none, or those for which a SQL condition on their
                columns holds. The others are emitted once and forgotten, as a Storm spout's without id.

        Returns:
            The spout, as an input of bolts.

        Raises:
            TopologyError: the name is not usable, or another component has it.
        """
        return self._add(SpoutComponent(name, source=source, reliable=self.reliable and reliable))

    @checked_decorator
    def bolt(
        self, *inputs: Stream | str, name: str | None = None, anchored: bool = True
    ) -> Callable[[DataFrameFunction], DataFrameBolt]:
        """Add the decorated function as a DataFrame bolt, which can still be called as the function.

        The function takes one DataFrame per input, each with a column `anchor`, and returns one DataFrame.
        Its rows keep the anchor of the tuple that they came from, or merge the anchors of several tuples by
        `acker.merge_anchors` and `acker.collect_anchors`. `acker.fail_when` fails a row.

        Args:
            inputs: components or their streams, or the names of those that are added later.
            name: the bolt's name; the function's own by default.
            anchored: False where the rows need no anchor: they belong to no message, and are published
                whether the messages are acked or not.

        Returns:
            A decorator, which returns the bolt.

        Raises:
            TopologyError: an input has a grouping, which a function that sees a whole batch cannot have.
        """

        def add(function: DataFrameFunction) -> DataFrameBolt:
            bolt = bolt_name(name, function)
            check_ungrouped(bolt, inputs)
            names = self._names(inputs)
            if names:
                check_called(f"Bolt {bolt}", function, *(component_of(each) for each in names))
            if inspect.isgeneratorfunction(function):
                raise TopologyError(
                    f"Bolt {bolt} yields, and a DataFrame bolt returns a DataFrame{place()}. Write `return` "
                    "in place of `yield`, or make it a basic bolt."
                )
            return self._add(DataFrameBolt(bolt, names, function=function, anchored=anchored))

        return add

    @checked_decorator
    def basic_bolt(
        self, *inputs: Stream | str, schema: str, name: str | None = None
    ) -> Callable[[TupleFunction], BasicBolt]:
        """Add the decorated function as a basic bolt, called with one tuple at a time.

        The function takes a `pyspark.sql.Row` and yields rows as dicts or tuples. The yielded rows are
        anchored to the tuple. The tuple is acked when the function returns, and failed when it raises.

        Args:
            inputs: components, streams or names, as of `bolt`; all with the same columns.
            schema: DDL of the rows that the function yields, such as "word string, length int".
            name: the bolt's name; the function's own by default.

        Returns:
            A decorator, which returns the bolt.

        Raises:
            TopologyError: an input has a grouping, which a function that keeps nothing from tuple to tuple
                cannot have.
        """

        def add(function: TupleFunction) -> BasicBolt:
            bolt = bolt_name(name, function)
            check_called(f"Bolt {bolt}", function, "row")
            check_schema(f"schema of bolt {bolt}", schema)
            check_ungrouped(bolt, inputs)
            return self._add(BasicBolt(bolt, self._names(inputs), function=function, schema=schema))

        return add

    @checked_decorator
    def rich_bolt(
        self,
        *inputs: Stream | str,
        schema: str,
        streams: Mapping[str, str] | None = None,
        tasks: int = 1,
        name: str | None = None,
    ) -> Callable[[Callable[[], RichBolt]], RichBoltComponent]:
        """Add the decorated class as a rich bolt; see `acker.RichBolt`.

        Args:
            inputs: components, streams or names, as of `bolt`, each with the grouping that says which task
                gets a tuple.
            schema: DDL of the tuples that the bolt emits, such as "word string, length int".
            streams: further streams that the bolt emits to, by name, each with its DDL.
            tasks: the number of instances that share the work of a batch.
            name: the bolt's name; that of the class in lower case, with underscores, by default.

        Returns:
            A decorator, which returns the bolt.

        Raises:
            TopologyError: the name of a stream cannot be used, or the class has no `execute`.
            SettingsError: `tasks` is out of range.
        """

        def add(factory: Callable[[], RichBolt]) -> RichBoltComponent:
            bolt = name or re.sub(r"(?<!^)(?=[A-Z])", "_", bolt_name(name, factory)).lower()
            check_rich_bolt(bolt, factory)
            check_schema(f"schema of bolt {bolt}", schema)
            for further, ddl in (streams or {}).items():
                check_name("stream", further)
                check_schema(f"streams[{further!r}] of bolt {bolt}", ddl)
            if not 1 <= tasks <= _MOST_TASKS:
                raise SettingsError(f"tasks of bolt {bolt} must be 1 to {_MOST_TASKS:,}, not {tasks}.")
            groupings = tuple((grouping_of(each) or Grouping()) for each in inputs)
            component = RichBoltComponent(
                bolt,
                self._names(inputs),
                factory=factory,
                groupings=groupings,
                tasks=tasks,
                schema=schema,
                further=dict(streams or {}),
            )
            return self._add(component)

        return add

    @checked
    def publish(
        self,
        stream: Stream | str,
        to: str | Target,
        by: str | Iterable[str] = (),
        aggregates: Mapping[str, Aggregate] | None = None,
        topic: "KafkaTarget | None" = None,
    ) -> None:
        """Publish a stream's tuples once their messages are acked.

        Args:
            stream: a component, one of its further streams, or the name of either.
            to: path or URI of a Delta table, or any target. Without `by` the rows are appended to the table,
                with a column `_root_id`.
            by: the key of a running aggregate. The table then holds one row per key.
            aggregates: column -> its aggregate over all tuples published so far.
            topic: the Kafka topic to which the changed rows of a running aggregate are sent as well.

        Raises:
            TopologyError: the stream or the table is published already, or the table is in the folder of
                another, or `by` and `aggregates` do not come together, or come with a target of another kind.
        """
        (name,) = self._names([stream])
        keys = (by,) if isinstance(by, str) else tuple(by)
        if bool(keys) != bool(aggregates):
            raise TopologyError(f"publish of {name}: `by` and `aggregates` come together or not at all.")
        check_aggregates(name, keys, aggregates or {})
        target = target_of(name, to, keys, dict(aggregates or {}), topic)
        for other in self.publications.values():
            if other.stream == name:
                raise TopologyError(f"{name} is published twice in topology {self.name}; once is enough.")
            if other.to == target.uri and not target.takes_several:
                raise TopologyError(
                    f"{other.stream} and {name} are both published to {target.uri}; "
                    "give each a table of its own."
                )
            inner, outer = other.target.delta_path, target.delta_path
            if inner is not None and outer is not None and is_nested(inner, outer):
                raise TopologyError(
                    f"{other.stream} and {name} are published to {other.to} and {target.uri}, and a VACUUM "
                    "of the outer table would delete the inner one; publish them side by side."
                )
        self.publications[name] = Publication(name, target)

    @checked
    def on_emit(self, function: HookFunction) -> HookFunction:
        """Call the decorated function after each fold that saw new attempts emitted.

        The functions of all hooks take an `acker.Notice` and run at most once per fold, in the process that
        folded. An exception that they raise is logged.

        Args:
            function: the function, called with a notice.

        Returns:
            The function itself.
        """
        return self._add_hook(Hook.ON_EMIT, function)

    @checked
    def on_ack(self, function: HookFunction) -> HookFunction:
        """Call the decorated function after each fold that acked messages; see `on_emit`.

        Args:
            function: the function, called with a notice.

        Returns:
            The function itself.
        """
        return self._add_hook(Hook.ON_ACK, function)

    @checked
    def on_retry(self, function: HookFunction) -> HookFunction:
        """Call the decorated function after each fold that found messages to try again; see `on_emit`.

        Args:
            function: the function, called with a notice.

        Returns:
            The function itself.
        """
        return self._add_hook(Hook.ON_RETRY, function)

    @checked
    def on_dead_letter(self, function: HookFunction) -> HookFunction:
        """Call the decorated function after each fold that gave messages up; see `on_emit`.

        Args:
            function: the function, called with a notice.

        Returns:
            The function itself.
        """
        return self._add_hook(Hook.ON_DEAD_LETTER, function)

    @checked
    def on_lost(self, function: HookFunction) -> HookFunction:
        """Call the decorated function after each fold that found messages to be lost; see `on_emit`.

        Args:
            function: the function, called with a notice.

        Returns:
            The function itself.
        """
        return self._add_hook(Hook.ON_LOST, function)

    def validate(self) -> None:
        """Check the graph as a whole.

        Raises:
            TopologyError: there is no spout, an input or a published component is unknown, a bolt
                reads nothing or the same input twice, or there is a cycle.
        """
        if not any(component.is_spout for component in self.components.values()):
            raise TopologyError(f"Topology {self.name} has no spout; add one with topology.spout(...).")
        for component in self.components.values():
            for each in component.inputs:
                if not self._has_stream(each):
                    raise TopologyError(
                        f"{component.name} reads {each}, which topology {self.name} does not have; "
                        f"{self._choice(each)}"
                    )
            if not component.is_spout and not component.inputs:
                raise TopologyError(
                    f"Bolt {component.name} of topology {self.name} reads nothing. "
                    f"Name what it reads in its decorator, as in @topology.bolt(orders)."
                )
            if len(set(component.inputs)) < len(component.inputs):
                raise TopologyError(f"Bolt {component.name} of topology {self.name} reads an input twice.")
        for name in self.publications:
            if not self._has_stream(name):
                raise TopologyError(
                    f"Topology {self.name} publishes {name}, which it does not have; {self._choice(name)}"
                )
        self.order()

    def order(self) -> list[Component]:
        """Sort the components, each after those that it reads.

        Returns:
            The components in that order.

        Raises:
            TopologyError: there is a cycle.
        """
        try:
            names = list(
                TopologicalSorter({c.name: c.upstreams for c in self.components.values()}).static_order()
            )
        except CycleError as error:
            circle = " → ".join(error.args[1])
            raise TopologyError(
                f"Topology {self.name} has a cycle: {circle}. Let one of them read something else."
            ) from error
        return [self.components[name] for name in names]

    def component(self, name: str) -> Component:
        """Find a component by its name.

        Args:
            name: the component's name.

        Returns:
            The spout or bolt.

        Raises:
            TopologyError: no component has that name.
        """
        if name not in self.components:
            raise TopologyError(
                f"Topology {self.name} has no component {name}; it has {', '.join(self.components)}."
                f"{did_you_mean(name, self.components)}"
            )
        return self.components[name]

    def publication(self, stream: str) -> Publication:
        """Find the publication of a stream.

        Args:
            stream: the stream's name.

        Returns:
            The stream with its target.

        Raises:
            TopologyError: the stream is not published.
        """
        if stream not in self.publications:
            published = ", ".join(self.publications) or "none"
            raise TopologyError(
                f"{stream} is not published by topology {self.name}; published are: {published}."
                f"{did_you_mean(stream, self.publications)}"
            )
        return self.publications[stream]

    def edges(self, name: str) -> tuple[str, ...]:
        """Find the consumers of a component's streams.

        Args:
            name: the component's name.

        Returns:
            The consumers, as `acker.core.stream_names.edge` calls them.
        """
        return tuple(
            edge(stream, bolt.name)
            for bolt in self.components.values()
            for stream in bolt.inputs
            if component_of(stream) == name
        )

    def may_be_untracked(self, name: str) -> bool:
        """Whether a stream may have tuples of no message, which are published without an ack.

        Args:
            name: the stream's name.

        Returns:
            Whether its component, or one before it, may emit such tuples.
        """
        component = self.components[component_of(name)]
        return component.may_be_untracked or any(self.may_be_untracked(each) for each in component.inputs)

    def unread(self, upstream: str, bolt: str) -> str | None:
        """Say why a bolt does not read a stream.

        Args:
            upstream: the stream's name.
            bolt: the bolt's name.

        Returns:
            The reason, in words; None where the bolt reads the stream.
        """
        if bolt not in self.components:
            return f"bolt {bolt} is no longer in the topology"
        if upstream not in self.components[bolt].inputs:
            return f"bolt {bolt} no longer reads {upstream}"
        return None

    @property
    def roles(self) -> dict[str, Role]:
        """The role of each component by its name, `spout` or `bolt`, for the journal."""
        return {name: "spout" if each.is_spout else "bolt" for name, each in self.components.items()}

    @property
    def spouts(self) -> tuple[SpoutComponent, ...]:
        """The spouts, in the order in which they were added."""
        return tuple(each for each in self.components.values() if isinstance(each, SpoutComponent))

    @property
    def bolts(self) -> tuple[Component, ...]:
        """The bolts, each after those that it reads."""
        return tuple(component for component in self.order() if not component.is_spout)

    def _add_hook(self, hook: Hook, function: HookFunction) -> HookFunction:
        check_called(f"Hook {hook} of topology {self.name}", function, "notice")
        check_done(f"Hook {hook} of topology {self.name}", function, "Leave the `yield` out.")
        self.hooks.setdefault(hook, []).append(function)
        return function

    def _choice(self, name: str) -> str:
        """Advice for a stream that does not exist: the streams that can be read and published."""
        streams = [
            stream
            for each in self.components.values()
            for stream in (each.name, *(stream_name(each.name, further) for further in each.streams))
        ]
        return f"choose one of {', '.join(streams) or 'none'}.{did_you_mean(name, streams)}"

    def _names(self, streams: Iterable[Stream | str]) -> tuple[str, ...]:
        """The names of streams of this topology.

        Raises:
            TopologyError: a stream is of another topology, whose component may share a name with one of this.
        """
        found = []
        for each in streams:
            name = each if isinstance(each, str) else each.stream_name
            owner = getattr(each, "owner", None)
            if owner is not None and self.components.get(owner.name) is not owner:
                raise TopologyError(
                    f"{name} is of another topology than {self.name}{place()}. Read a component of this one, "
                    f"or the other's published table with a DeltaSpout."
                )
            found.append(name)
        return tuple(found)

    def _has_stream(self, name: str) -> bool:
        component, further = parts_of(name)
        found = self.components.get(component)
        return found is not None and (not further or further in found.streams)

    def _add(self, component: AnyComponent) -> AnyComponent:
        check_name("component", component.name)
        if component.name in self.components:
            raise TopologyError(
                f"Topology {self.name} has two components called {component.name}; rename one."
            )
        self.components[component.name] = component
        return component

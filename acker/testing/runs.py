"""Runs of a bolt, or of a whole topology, on the rows of a test.

Both go through the real steps (plan, write, log, fold, publish) in a store of a temporary folder. So the same
messages fail, are held back and are published as in a deployment.
"""

import copy
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from pyspark import cloudpickle
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from acker.batches.run import Run
from acker.components.base import Component
from acker.components.function_bolt import FunctionBolt
from acker.components.rich_bolt import RichBoltComponent
from acker.components.spout import SpoutComponent
from acker.core.errors import SettingsError
from acker.core.retry import ExponentialBackoff, FailedAttempt, RetryPolicy, delay_after
from acker.core.store.store import Store
from acker.operations.cycle import drain, run_cycle
from acker.spouts import FileSpout
from acker.targets.append import DeltaAppend
from acker.targets.base import Target
from acker.testing.results import BoltResult, Outcome, TopologyResult
from acker.testing.rows import LiteralSpout, Row, check_known, columns_of, literal_components
from acker.testing.session import empty_store, session
from acker.topology.topology import Publication, Topology

Rows = Sequence[Row]


@dataclass
class _Clock:
    """A clock that goes on only where a run sleeps, so a retry in an hour takes no time."""

    now: datetime = field(default=datetime(2000, 1, 1, tzinfo=UTC))

    def __call__(self) -> datetime:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)


@dataclass(frozen=True)
class _AtMost:
    """A retry policy that gives up after some retries, if the topology's own does not do so before."""

    policy: RetryPolicy
    retries: int

    def delay_seconds(self, failure: FailedAttempt) -> float | None:
        """See `RetryPolicy`."""
        return None if failure > self.retries else delay_after(self.policy, failure)


def run_bolt(
    bolt: Component,
    rows: Rows | Mapping[str, Rows],
    *,
    schema: str | Mapping[str, str] | None = None,
    spark: SparkSession | None = None,
) -> BoltResult:
    """Run one bolt over some rows, as one batch, and return the rows that it emitted, failed and held back.

    Args:
        bolt: the bolt, as the decorators of a topology make it. The topology itself takes no part.
        rows: the tuples that the bolt takes in, as dicts by column; for a bolt with several inputs a dict,
            input name -> rows. An input that is left out has no rows.
        schema: DDL of the rows, such as "id bigint, items string", or input name -> DDL. By default the types
            are those of the values, as in `createDataFrame`; a dict within a row is a struct. A column with
            only None or empty lists needs a DDL.
        spark: a session on a server of this machine; by default the tests' own, which the first call starts.

    Raises:
        SettingsError: `bolt` is no bolt, the rows are not of its inputs, or their types are not known.
        BoltError: the bolt broke its contract, such as a DataFrame without `anchor`.
    """
    if not isinstance(bolt, Component) or bolt.is_spout:
        raise SettingsError(
            f"run_bolt runs a bolt, as @topology.bolt, @topology.basic_bolt and topology.rich_bolt make it, "
            f"and not {bolt!r:.200}."
        )
    given = _by_input(bolt, rows)
    ddl = _ddl(bolt, schema)
    spark = spark or session()
    columns = {name: columns_of(spark, name, given[name], ddl.get(name)) for name in given}
    topology = Topology(
        "testing", message_timeout=None, retry=ExponentialBackoff(limit=0), batch_rows=2**31 - 1
    )
    for component in [*literal_components(spark, given, columns), bolt]:
        topology.components[component.name] = component
    with TemporaryDirectory(prefix="acker-run-") as folder:
        run = _run(topology, folder, spark)
        run_cycle(run)
        outcome = Outcome(run, given)
        return BoltResult(
            rows=outcome.emitted(bolt),
            failures=[replace(failure, bolt=None) for failure in outcome.failures()],
            held=outcome.held(bolt),
            streams={name: outcome.emitted(bolt, name) for name in bolt.streams},
        )


def run_topology(
    topology: Topology,
    inputs: Mapping[str, Rows],
    *,
    schema: Mapping[str, str] | None = None,
    retries: int = 10,
    spark: SparkSession | None = None,
) -> TopologyResult:
    """Run a copy of a topology over some messages, until all that can settle has settled.

    The copy reads the given rows in the place of its sources and publishes to temporary tables. Messages that
    fail are tried again by the topology's own policy, whose delays pass at once. Hooks are not called. A
    target of your own is not called either: its rows are in the result as if they were appended to a table.

    Args:
        topology: the topology, which stays as it is. Its sources, its store and its published tables take no
            part.
        inputs: spout name -> the rows of its messages, as dicts by column. A spout that is left out has none.
        schema: spout name -> DDL. By default the columns that a `FileSpout` of text or JSON declares, and
            else those of the rows, as for `run_bolt`.
        retries: the number of retries after which a message is given up, unless the policy does so before.
        spark: as for `run_bolt`.

    Raises:
        SettingsError: a spout is not known, or the types of its rows are not.
        TopologyError: the topology cannot run as it stands.
        BoltError: a bolt broke its contract.
    """
    topology.validate()
    spouts = {spout.name: spout for spout in topology.spouts}
    check_known(f"Topology {topology.name} has no spout", [*inputs, *(schema or {})], spouts)
    spark = spark or session()
    given = {name: list(inputs.get(name, [])) for name in spouts}
    columns = {name: _columns(spark, spout, given[name], schema or {}) for name, spout in spouts.items()}
    with TemporaryDirectory(prefix="acker-run-") as folder:
        twin = copy.copy(topology)
        twin.components = dict(topology.components)
        for name, spout in spouts.items():
            source = LiteralSpout({name: given[name]}, {name: columns[name]})
            source.check(spark)
            twin.components[name] = replace(spout, source=source)
        twin.publications = {
            name: Publication(name, _redirected(publication.target, f"{folder}/published/{name}"))
            for name, publication in topology.publications.items()
        }
        twin.hooks = {}
        twin.retry = _AtMost(topology.retry, retries)
        clock = _Clock()
        run = _run(twin, folder, spark, clock)
        drain(run, sleep=clock.sleep)
        outcome = Outcome(run, given)
        return TopologyResult(
            published={name: outcome.published(each) for name, each in twin.publications.items()},
            states=outcome.states(),
            failures=outcome.failures(),
            dead_letters=outcome.dead_letters(),
        )


def _run(topology: Topology, folder: str, spark: SparkSession, clock: _Clock | None = None) -> Run:
    """A run of a topology whose store is empty."""
    topology.validate()
    _pickle_by_value(topology.components.values())
    store = Store(f"{folder}/store", topology.name)
    shutil.copytree(empty_store(), Path(store.path("")))
    return Run(topology, store, lambda: spark, clock=clock or _Clock())


def _pickle_by_value(components: Iterable[Component]) -> None:
    """Let functions travel to Spark's workers whole, which may not find the module of a test."""
    for component in components:
        function = None
        if isinstance(component, FunctionBolt):
            function = component.function
        elif isinstance(component, RichBoltComponent):
            function = component.factory
        if isinstance(function, partial):
            function = function.func
        module = sys.modules.get(getattr(function, "__module__", ""))
        if module is not None:
            cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]


def _by_input(bolt: Component, rows: Rows | Mapping[str, Rows]) -> dict[str, Rows]:
    """Input of a bolt -> its rows, in the order in which the bolt reads its inputs."""
    if not isinstance(rows, Mapping):
        if len(bolt.inputs) != 1:
            names = ", ".join(f"{name!r}: […]" for name in bolt.inputs)
            raise SettingsError(
                f"Bolt {bolt.name} reads {len(bolt.inputs)} inputs; give their rows as {{{names}}}."
            )
        return {bolt.inputs[0]: list(rows)}
    check_known(f"Bolt {bolt.name} does not read", rows, bolt.inputs)
    return {name: list(rows.get(name, [])) for name in bolt.inputs}


def _ddl(bolt: Component, schema: str | Mapping[str, str] | None) -> Mapping[str, str]:
    """Input of a bolt -> the DDL of its rows; one text is that of all."""
    if isinstance(schema, str):
        return dict.fromkeys(bolt.inputs, schema)
    check_known(f"Bolt {bolt.name} does not read", schema or {}, bolt.inputs)
    return schema or {}


def _columns(spark: SparkSession, spout: SpoutComponent, rows: Rows, schema: Mapping[str, str]) -> StructType:
    """The columns of a spout's messages. No source is opened to tell them."""
    ddl = schema.get(spout.name)
    source = spout.source
    if ddl is None and isinstance(source, FileSpout):
        ddl = "value string" if source.format == "text" else source.schema
    return columns_of(spark, spout.name, rows, ddl)


def _redirected(target: Target, path: str) -> Target:
    return DeltaAppend(path) if target.delta_path is None else target.moved_to(path)

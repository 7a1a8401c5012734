"""The journal of batches: every batch is planned here before it runs, so that it is resumed after a crash.

Each component numbers its batches 1, 2, 3, …; they run one after another, so a component that has logged
batch n has logged all before it. The table is written without Spark, and by this module alone.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from functools import cached_property
from itertools import pairwise
from typing import Any

import polars as pl
import pyarrow as pa

from acker.core.errors import StoreError
from acker.core.snapshot.inputs import Spans
from acker.core.snapshot.planned import Batch, BatchKind, Role, input_of
from acker.core.snapshot.snapshot import Snapshot
from acker.core.store.schemas import BATCHES, EVENTS, SCHEMAS
from acker.core.store.store import Store
from acker.core.store.tables import RECOVERY_HINT, append_all, query, query_table
from acker.core.stream_names import component_of, edge, ends

_AT_ONCE = 10_000  # batches that are held as objects
_LOOK_BACK = 100  # batches that are read at first by who looks for the newest ones


class Journal(Snapshot):
    """The `batches` table of a snapshot.

    Args:
        store: of the topology.
        roles: component of the topology -> its role. Of a component that is missing here the recorded edges
            tell whether it was a bolt.
    """

    def __init__(self, store: Store, roles: Mapping[str, Role] | None = None) -> None:
        super().__init__(store)
        self.roles = roles or {}

    def append(self, batch: Batch) -> Batch:
        """Plan a batch, and return the batch that holds its number now: this one, or another run's."""
        is_ours = self.append_all([batch])
        newest = self if is_ours else Journal(self.store, self.roles)
        return newest.read(batch.component, batch.number)

    def append_all(self, batches: Sequence[Batch]) -> bool:
        """Plan batches of several components in one commit; False where one of their numbers is taken.

        Args:
            batches: those of one component follow each other.
        """
        rows = [
            {
                "component": batch.component,
                "batch": batch.number,
                "kind": batch.kind,
                "input": json.dumps(batch.input.to_json(), separators=(",", ":")),
                "edges": list(batch.edges),
                "planned_at": batch.planned_at,
                "run_id": batch.run_id,
            }
            for batch in batches
        ]
        table = pa.Table.from_pylist(rows, SCHEMAS[BATCHES].arrow())
        numbers = {batch.component: batch.number for batch in batches}
        firsts = {batch.component: batch.number for batch in reversed(batches)}
        return append_all(self.require(BATCHES), table, numbers, firsts)

    def read(self, component: str, number: int) -> Batch:
        """One planned batch.

        Raises:
            StoreError: the table has no row of the batch, or several.
        """
        rows = self.rows(f"component = '{component}' AND batch = {number}")
        if len(rows) != 1:
            raise StoreError(
                f"{self.store.path(BATCHES)} has {len(rows)} rows for batch {number} of {component} instead "
                "of one. It was restored or edited by hand; restore it to a version that holds the batch. "
                f"{RECOVERY_HINT}",
                component=component,
                batch=number,
                table=self.store.path(BATCHES),
            )
        return rows[0]

    def rows(self, where: str) -> list[Batch]:
        """Planned batches that match a SQL condition, by component and number."""
        table = self.open(BATCHES)
        if table is None:
            return []
        found = query(f"SELECT * FROM batches WHERE {where} ORDER BY component, batch", batches=table)
        return [self._batch(row) for row in found]

    def _batch(self, row: dict[str, Any]) -> Batch:
        """The batch of a row.

        Raises:
            StoreError: no run can have written the row.
        """
        try:
            if None in (row["planned_at"], row["run_id"], *row["edges"]):
                raise ValueError("something is missing")
            return Batch(
                component=row["component"],
                number=row["batch"],
                kind=row["kind"],
                input=input_of(row["kind"], self._role(row["component"]), json.loads(row["input"])),
                edges=tuple(row["edges"]),
                planned_at=row["planned_at"],
                run_id=row["run_id"],
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise self._damaged(f"batch {row['batch']} of {row['component']}") from error

    def _role(self, component: str) -> Role:
        if component in self.roles:
            return self.roles[component]
        return "bolt" if component in self._former_bolts else "spout"

    @cached_property
    def _former_bolts(self) -> set[str]:
        """Every bolt that a batch was ever planned for."""
        return {bolt for bolts in self.edges.values() for bolt in bolts}

    def _damaged(self, what: str) -> StoreError:
        return StoreError(
            f"{self.store.path(BATCHES)} has a row that no run wrote, {what}. It was edited by hand; "
            f"restore it to a version without the row. {RECOVERY_HINT}",
            table=self.store.path(BATCHES),
        )

    def numbers_for(self, upstream: str, consumer: str, after: int, upto: int) -> list[int]:
        """Batches of the stream `upstream` in (after, upto] that have `consumer` among their edges."""
        if upto <= after:
            return []
        found = self._all(component_of(upstream), after, upto)
        return [batch.number for batch in found if edge(upstream, consumer) in batch.edges]

    def all(self, component: str) -> Iterator[Batch]:
        """All batches of a component, in order, of which only some are in memory at once.

        Raises:
            StoreError: a batch is missing.
        """
        known = self._known(component)
        for after in range(0, known, _AT_ONCE):
            yield from self._all(component, after, min(after + _AT_ONCE, known))

    def given(self, bolt: str, stream: str, numbers: Sequence[int]) -> list[int]:
        """The bolt's batches that can be given tuples, new or held back, of some batches of a stream.

        The ends of spans only grow, so the search reads back from the newest batch, and not the whole
        history.

        Args:
            numbers: of the batches, sorted.

        Raises:
            StoreError: one of the bolt's batches is missing.
        """
        wanted = pl.Series(numbers, dtype=pl.Int64)
        found: list[int] = []
        upto, step = self._known(bolt), _LOOK_BACK
        while upto > 0:
            spans = self._spans(bolt, stream, max(upto - step, 0), upto)
            # What is held back may be older than what is new.
            after = pl.min_horizontal("after", pl.col("held") - 1)
            ends = spans.select("batch", "upto", after=after).drop_nulls("upto")
            first, last = (wanted.search_sorted(ends[end], side="right") for end in ("after", "upto"))
            found += ends["batch"].filter(first < last).to_list()
            if (spans["upto"][0] or 0) < numbers[0]:
                break
            upto, step = upto - step, 2 * step
        return found

    def _spans(self, bolt: str, stream: str, after: int, upto: int) -> pl.DataFrame:
        """The spans of a stream in the bolt's batches in (after, upto], one row for each batch.

        Returns:
            Columns `batch`, `input`, `after`, `upto` and `held`. The last three are null where the batch has
            no span of the stream. `held` is also null where the bolt holds no tuple of the stream back.

        Raises:
            StoreError: a batch is missing, or no run can have planned it.
        """
        ends = pl.Struct({name: pl.Int64 for name in ("after", "upto", "held")})
        inputs = self._inputs(f"component = '{bolt}' AND batch > {after} AND batch <= {upto}")
        self._check_all(bolt, after, upto, inputs["batch"].to_list())
        decoded = pl.col("input").str.json_decode(pl.Struct({stream: ends}))
        try:
            found = inputs.select("batch", "input", span=decoded.struct.field(stream))
        except pl.exceptions.PolarsError as error:
            raise self._damaged(f"of {bolt}, among its batches {after + 1} to {upto}") from error
        spans = found.unnest("span")
        is_none = pl.col("after").is_null() & pl.col("upto").is_null()
        is_sound = pl.col("input").is_not_null() & (is_none | (pl.col("after") <= pl.col("upto")))
        for number in spans.filter(~is_sound.fill_null(False))["batch"].head(1):
            raise self._damaged(f"batch {number} of {bolt}")
        return spans

    def described(self, spout: str, upto: int) -> list[Any]:
        """The ranges that a spout has planned up to one of its batches, as the spout gave them, in order."""
        where = f"component = '{spout}' AND kind = 'next' AND batch <= {upto}"
        try:
            found: list[Any] = json.loads(f"[{','.join(self._inputs(where)['input'])}]")
        except (TypeError, ValueError):
            found = [None]
        if None in found:  # the batch that no run has planned is told
            found = [batch.input.to_json() for batch in self.rows(where)]
        return found

    def plans_of_replays(self) -> pl.Series:
        """The plans of all batches of replays: the names of their messages in the table `replays`."""
        return self._inputs("kind = 'replay'")["input"].str.json_path_match("$.plan").drop_nulls()

    def _inputs(self, where: str) -> pl.DataFrame:
        """Number and input of planned batches that match a SQL condition, by number."""
        table = self.open(BATCHES)
        if table is None:
            return pl.DataFrame(schema={"batch": pl.Int64, "input": pl.String})
        sql = f"SELECT batch, input FROM batches WHERE {where} ORDER BY batch"
        return pl.DataFrame(query_table(sql, batches=table))

    def unfinished(self, component: str) -> Batch | None:
        """The component's first planned batch that is not logged; None where all planned batches are logged.

        Several batches may be planned and not logged, since a replay by hand may plan several at once. If
        `events` was lost or put back, all batches that it lacks are logged again, one after the other.

        Raises:
            StoreError: the journal was put back to an older version.
        """
        logged = self.logged(component)
        return None if self._known(component) == logged else self.read(component, logged + 1)

    def _known(self, component: str) -> int:
        """Number of the component's newest planned batch, after a check that `events` is not ahead of it.

        Raises:
            StoreError: the journal was put back to an older version.
        """
        planned, logged = self.planned(component), self.logged(component)
        if planned < logged:
            raise self.rolled_back(component, planned, EVENTS, logged)
        return planned

    def _all(self, component: str, after: int, upto: int) -> list[Batch]:
        found = self.rows(f"component = '{component}' AND batch > {after} AND batch <= {upto}")
        self._check_all(component, after, upto, [batch.number for batch in found])
        return found

    def _check_all(self, component: str, after: int, upto: int, found: Iterable[int]) -> None:
        missing = set(range(after + 1, upto + 1)).difference(found)
        if missing:
            raise StoreError(
                f"{self.store.path(BATCHES)} has no row for batch {min(missing)} of {component}. It was "
                f"restored or edited by hand; restore it to a version that holds the batch. {RECOVERY_HINT}",
                component=component,
                batch=min(missing),
                table=self.store.path(BATCHES),
            )

    def inputs(self, batch: Batch) -> dict[str, list[int]]:
        """Per input stream the batches that a bolt's batch takes in."""
        return {
            upstream: self.numbers_for(upstream, batch.component, span.after, span.upto)
            for upstream, span in batch.spans.by_stream.items()
        }

    @cached_property
    def edges(self) -> dict[str, dict[str, int]]:
        """Stream of any component that planned -> bolt -> the newest batch with the bolt among its edges."""
        table = self.open(BATCHES)
        if table is None:
            return {}
        found = query(
            "SELECT component, edges, max(batch) AS newest FROM batches GROUP BY component, edges "
            "ORDER BY component, newest",
            batches=table,
        )
        newest: dict[str, dict[str, int]] = {}
        for row in found:
            if None in (row["component"], row["edges"], row["newest"]) or None in row["edges"]:
                raise self._damaged(f"of {row['component']} with the edges {row['edges']}")
            newest.setdefault(row["component"], {})
            for each in row["edges"]:
                name, bolt = ends(row["component"], each)
                newest.setdefault(name, {})[bolt] = row["newest"]
        return newest

    def newest_of(self, component: str, kind: BatchKind) -> Batch | None:
        """The newest batch of a kind that a component planned; None before the first."""
        where = f"component = '{component}' AND kind = '{kind}'"
        newest = self.rows(f"{where} AND batch = (SELECT max(batch) FROM batches WHERE {where})")
        return newest[0] if newest else None

    @cached_property
    def first_planned_at(self) -> datetime | None:
        """The time at which the first batch of any component was planned; None before that."""
        table = self.open(BATCHES)
        if table is None:
            return None
        (row,) = query("SELECT min(planned_at) AS first FROM batches", batches=table)
        first: datetime | None = row["first"]
        return first

    def check_batches(self) -> None:
        """Stop where a batch is not planned exactly once, or does not begin where the one before ended.

        Raises:
            StoreError: with the first such batch.
        """
        components = {*self.components(), *(self.fold.logged if self.fold else ())}
        with ThreadPoolExecutor() as pool:  # what waits for an object store waits together
            list(pool.map(self._check_batches_of, sorted(components)))

    def _check_batches_of(self, component: str) -> None:
        for before, batch in pairwise(self.all(component)):
            if batch.number == before.number or not _follows(before, batch):
                raise self._damaged(f"batch {batch.number} of {component}")

    def rolled_back(self, component: str, newest: int, where: str, known: int) -> StoreError:
        """The error about a journal that lacks batches of a component which another table knows.

        Args:
            newest: the component's newest batch in the journal.
            where: the name of the other table.
            known: the component's newest batch in the other table.
        """
        return StoreError(
            f"{self.store.path(BATCHES)} has batches of {component} up to {newest}, {self.store.path(where)} "
            f"up to {known}: the journal was put back to an older version. Put back a newer one. "
            f"{RECOVERY_HINT}",
            component=component,
            table=self.store.path(BATCHES),
        )

    def components(self) -> list[str]:
        """Every component that ever planned a batch."""
        return sorted({component_of(name) for name in self.edges})


def _follows(before: Batch, batch: Batch) -> bool:
    """Whether a bolt's batch begins where the one before it ended; True for a spout's batch."""
    if not isinstance(before.input, Spans):
        return True
    spans = batch.spans.by_stream
    return all(name in spans and spans[name].after == end for name, end in before.input.ends.items())

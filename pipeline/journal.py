"""The journal of batches: every batch is planned here before it runs, so that a crash resumes it.

Each component numbers its batches 1, 2, 3, …; they run one after another, so a component that has
logged batch n has logged all before it. The table is written without Spark, and by this module alone.
"""

import json
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Any, Literal, get_args

import pyarrow as pa

from acker.errors import StoreError
from acker.ledger import newest_fold
from acker.schemas import BATCHES, EVENTS, SCHEMAS, component_of, edge, ends
from acker.tables import WAY_OUT, Store, append_all, query
from pipeline.spouts import History, Range

_LOOK_BACK = 100  # batches that are read at first by who looks for the newest ones

_BIGINT, _INT = range(-(2**63), 2**63), range(1, 2**31)

BatchKind = Literal["next", "replay", "retire"]


@dataclass(frozen=True)
class Batch:
    """One planned batch: one run of one component over one input."""

    component: str
    number: int
    kind: BatchKind
    input: dict[str, Any]  # the exact range, or the messages to replay; JSON in the table
    edges: tuple[str, ...]  # the consumers at the time
    planned_at: datetime
    run_id: str

    @property
    def positions(self) -> dict[str, int]:
        """Of a bolt's batch: every stream that the bolt ever read -> its newest batch taken in by then."""
        read = {name: each for name, each in self.input.items() if isinstance(each, dict)}
        return {name: each["upto"] for name, each in read.items() if "upto" in each}

    def taken(self, upstream: str) -> int:
        """The newest batch of `upstream` that the bolt has taken in with this one; 0 if none."""
        return self.positions.get(upstream, 0)

    def is_given_any(self, upstream: str, numbers: Sequence[int]) -> bool:
        """Whether this bolt's batch can be given tuples of some batches of `upstream`, new ones or held back.

        Args:
            numbers: of the batches, sorted.
        """
        given = self.input.get(upstream)
        if given is None:
            return False
        after = min(given["after"], given.get("held", given["upto"]) - 1)
        return bisect_right(numbers, after) < bisect_right(numbers, given["upto"])


@dataclass(frozen=True)
class Journal:
    """Reads and appends of the `batches` table."""

    store: Store

    def newest_number(self, component: str) -> int:
        """Number of the component's newest planned batch, 0 before the first."""
        return self.store.last_number(BATCHES, component)

    def logged(self, component: str, events_version: int | None = None) -> int:
        """Number of the newest logged batch of a component, or of a stream's; 0 before the first."""
        return self.store.last_number(EVENTS, component_of(component), events_version)

    def append(self, batch: Batch) -> Batch:
        """Plan a batch, and return the one that holds its number now: ours, or another run's."""
        self.append_all([batch])
        return self.read(batch.component, batch.number)

    def append_all(self, batches: Sequence[Batch]) -> bool:
        """Plan batches of several components in one commit; False where a number of them is taken."""
        rows = [
            {
                "component": batch.component,
                "batch": batch.number,
                "kind": batch.kind,
                "input": json.dumps(batch.input, separators=(",", ":")),
                "edges": list(batch.edges),
                "planned_at": batch.planned_at,
                "run_id": batch.run_id,
            }
            for batch in batches
        ]
        table = pa.Table.from_pylist(rows, SCHEMAS[BATCHES].arrow())
        numbers = {batch.component: batch.number for batch in batches}
        return append_all(self.store.require(BATCHES), table, numbers)

    def read(self, component: str, number: int) -> Batch:
        """One planned batch.

        Raises:
            StoreError: its row is not there.
        """
        rows = self.rows(f"component = '{component}' AND batch = {number}")
        if len(rows) != 1:
            raise StoreError(
                f"{self.store.path(BATCHES)} has {len(rows)} rows for batch {number} of {component} instead "
                "of one. It was restored or edited by hand; restore it to a version that holds the batch. "
                f"{WAY_OUT}"
            )
        return rows[0]

    def rows(self, where: str) -> list[Batch]:
        """Planned batches that match a SQL condition, by component and number."""
        table = self.store.open(BATCHES)
        if table is None:
            return []
        found = query(f"SELECT * FROM batches WHERE {where} ORDER BY component, batch", batches=table)
        return [self._batch(row) for row in found]

    def _batch(self, row: dict[str, Any]) -> Batch:
        """A row as a batch.

        Raises:
            StoreError: no run wrote it.
        """
        try:
            planned = json.loads(row["input"])
            batch = Batch(
                component=row["component"],
                number=row["batch"],
                kind=row["kind"],
                input=planned,
                edges=tuple(row["edges"]),
                planned_at=row["planned_at"],
                run_id=row["run_id"],
            )
            sound = _is_sound(batch)
        except (KeyError, TypeError, ValueError, pa.ArrowException):
            sound = False
        if not sound:
            raise self._damaged(f"batch {row['batch']} of {row['component']}")
        return batch

    def _damaged(self, what: str) -> StoreError:
        return StoreError(
            f"{self.store.path(BATCHES)} has a row that no run wrote, {what}. It was edited by hand; "
            f"restore it to a version without the row. {WAY_OUT}"
        )

    def numbers_for(self, upstream: str, consumer: str, after: int, upto: int) -> list[int]:
        """Batches of the stream `upstream` in (after, upto] that have `consumer` among their edges."""
        if upto <= after:
            return []
        found = self._all(component_of(upstream), after, upto)
        return [batch.number for batch in found if edge(upstream, consumer) in batch.edges]

    def all(self, component: str) -> list[Batch]:
        """All batches of a component, in order.

        Raises:
            StoreError: one is missing.
        """
        return self._all(component, 0, self._newest(component))

    def since(self, bolt: str, upstream: str, first: int) -> list[Batch]:
        """The bolt's batches that can be given batch `first` of the stream `upstream` or later ones.

        Positions only grow, so this reads back from the newest batch, and not all that there ever was.

        Raises:
            StoreError: one is missing.
        """
        found: list[Batch] = []
        upto, step = self._newest(bolt), _LOOK_BACK
        while upto > 0:
            rows = self._all(bolt, max(upto - step, 0), upto)
            found += rows
            if rows[0].taken(upstream) < first:
                break
            upto, step = upto - step, 2 * step
        return found

    def _newest(self, component: str) -> int:
        logged = self.logged(component)  # first, since a run may plan and log meanwhile
        newest = self.newest_number(component)
        if newest < logged:
            raise self.put_back(component, newest, EVENTS, logged)
        return newest

    def _all(self, component: str, after: int, upto: int) -> list[Batch]:
        found = self.rows(f"component = '{component}' AND batch > {after} AND batch <= {upto}")
        missing = set(range(after + 1, upto + 1)) - {batch.number for batch in found}
        if missing:
            raise StoreError(
                f"{self.store.path(BATCHES)} has no row for batch {min(missing)} of {component}. It was "
                f"restored or edited by hand; restore it to a version that holds the batch. {WAY_OUT}"
            )
        return found

    def inputs(self, batch: Batch) -> dict[str, list[int]]:
        """Per input stream the batches that a bolt's batch takes in."""
        return {
            upstream: self.numbers_for(upstream, batch.component, each["after"], each["upto"])
            for upstream, each in batch.input.items()
            if upstream in batch.positions
        }

    def edges(self) -> dict[str, dict[str, int]]:
        """Stream of any component that planned -> bolt -> the newest batch with the bolt among its edges."""
        table = self.store.open(BATCHES)
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

    def history(self, spout: str) -> History:
        """What a spout planned to read so far."""
        where = f"component = '{spout}' AND kind = 'next'"
        newest = self.rows(f"{where} AND batch = (SELECT max(batch) FROM batches WHERE {where})")
        return History(newest[0].input if newest else None, lambda: [b.input for b in self.rows(where)])

    def refuse_broken(self) -> None:
        """Stop where a batch is not planned exactly once, or does not begin where the one before ended.

        Raises:
            StoreError: with the first of them.
        """
        fold = newest_fold(self.store)
        for component in {*self.components(), *(fold.logged if fold else ())}:
            for before, batch in pairwise(self.all(component)):
                begins = {name: batch.input.get(name, {}).get("after") for name in before.positions}
                if batch.number == before.number or begins != before.positions:
                    raise self._damaged(f"batch {batch.number} of {component}")

    def put_back(self, component: str, newest: int, where: str, known: int) -> StoreError:
        """What to say of a journal that lacks batches of a component which another table knows."""
        return StoreError(
            f"{self.store.path(BATCHES)} has batches of {component} up to {newest}, {self.store.path(where)} "
            f"up to {known}: the journal was put back to an older version. Put back a newer one. {WAY_OUT}"
        )

    def components(self) -> list[str]:
        """Every component that ever planned a batch."""
        table = self.store.open(BATCHES)
        if table is None:
            return []
        found = query("SELECT DISTINCT component FROM batches ORDER BY component", batches=table)
        if any(row["component"] is None for row in found):
            raise self._damaged("without a component")
        return [row["component"] for row in found]


def _is_sound(batch: Batch) -> bool:
    """Whether a batch is one that a run can have planned; may raise what reading another raises."""
    if batch.kind not in get_args(BatchKind) or not isinstance(batch.input, dict) or None in batch.edges:
        return False
    if batch.kind == "replay":
        messages = [message for each in batch.input["messages"].values() for message in each]
        return bool(messages) and all(_is_emission(*message) for message in messages)
    ranges = [each for each in batch.input.values() if isinstance(each, dict) and "upto" in each]
    numbers = [each[name] for each in ranges for name in ("after", "upto")]
    is_whole = batch.planned_at is not None and batch.run_id is not None
    return is_whole and all(type(each) is int for each in numbers)


def _is_emission(offset: object, attempt: object, replaces: object) -> bool:
    # In plain Python: PyArrow would import pandas to look at the values, which takes an audit a second.
    bounds = ((offset, _BIGINT), (attempt, _INT), (0 if replaces is None else replaces, _BIGINT))
    return all(type(value) is int and value in bound for value, bound in bounds)


def messages_table(planned: Range) -> pa.Table:
    """The messages of a replay's input: source_partition, source_offset, attempt, replaces."""
    rows = [
        (partition, offset, attempt, replaces)
        for partition, messages in planned["messages"].items()
        for offset, attempt, replaces in messages
    ]
    schema = pa.schema(
        {
            "source_partition": pa.string(),
            "source_offset": pa.int64(),
            "attempt": pa.int32(),
            "replaces": pa.int64(),
        }
    )
    return pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema)

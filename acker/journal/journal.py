"""The journal of batches: every batch is planned here before it runs, so that a crash resumes it.

Each component numbers its batches 1, 2, 3, …; they run one after another, so a component that has
logged batch n has logged all before it. The table is written without Spark, and by this module alone.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any

import pyarrow as pa

from acker.core.delta import WAY_OUT, Store, append_all, query
from acker.core.errors import StoreError
from acker.core.ledger import newest_fold
from acker.core.schemas import BATCHES, EVENTS, SCHEMAS, component_of, edge, ends
from acker.journal.batch import Batch, BatchKind, Role, input_of
from acker.journal.inputs import Spans

_LOOK_BACK = 100  # batches that are read at first by who looks for the newest ones


@dataclass(frozen=True)
class Journal:
    """Reads and appends of the `batches` table.

    Args:
        roles: the components of the topology. Of a component that is not among them the recorded edges tell
            whether it was a bolt.
    """

    store: Store
    roles: Mapping[str, Role] = field(default_factory=dict)

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
                "input": json.dumps(batch.input.to_json(), separators=(",", ":")),
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
        return {bolt for bolts in self.edges().values() for bolt in bolts}

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

        The ends of spans only grow, so this reads back from the newest batch and not the whole history.

        Raises:
            StoreError: one is missing.
        """
        found: list[Batch] = []
        upto, step = self._newest(bolt), _LOOK_BACK
        while upto > 0:
            rows = self._all(bolt, max(upto - step, 0), upto)
            found += rows
            if rows[0].spans.end(upstream) < first:
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
            upstream: self.numbers_for(upstream, batch.component, span.after, span.upto)
            for upstream, span in batch.spans.by_stream.items()
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

    def newest_of(self, component: str, kind: BatchKind) -> Batch | None:
        """The newest batch of a kind that a component planned; None before the first."""
        where = f"component = '{component}' AND kind = '{kind}'"
        newest = self.rows(f"{where} AND batch = (SELECT max(batch) FROM batches WHERE {where})")
        return newest[0] if newest else None

    def refuse_broken(self) -> None:
        """Stop where a batch is not planned exactly once, or does not begin where the one before ended.

        Raises:
            StoreError: with the first of them.
        """
        fold = newest_fold(self.store)
        for component in {*self.components(), *(fold.logged if fold else ())}:
            for before, batch in pairwise(self.all(component)):
                if batch.number == before.number or not _follows(before, batch):
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


def _follows(before: Batch, batch: Batch) -> bool:
    """Whether a bolt's batch begins where the one before it ended; a spout's may always."""
    if not isinstance(before.input, Spans):
        return True
    spans = batch.spans.by_stream
    return all(name in spans and spans[name].after == end for name, end in before.input.ends.items())

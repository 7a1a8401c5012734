"""A target that an author writes: it publishes each fold once, and says what it cannot do."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from pyspark.sql import DataFrame, SparkSession

from acker import DeltaSpout, Target, Topology, TopologyError
from acker.core.events import State
from acker.core.snapshot.verdict import Finding
from acker.operations.cycle import run_cycle
from acker.operations.maintenance.backup import back_up, topology_in
from acker.operations.publish import publish
from acker.operations.replay import plan_by_hand
from acker.operations.selection.selection import Selection
from acker.reports.audit import audit_report
from acker.reports.published import published_rows
from acker.reports.status import status_report
from acker.reports.trace import trace_report
from acker.targets.base import Changes, Evidence, Findings, Publisher
from acker.topology.topology import Publication


@dataclass(frozen=True)
class Files(Target):
    """A folder with one JSON file per fold, which appears whole or not at all."""

    folder: Path

    @property
    def uri(self) -> str:
        return str(self.folder)

    def pinned(self) -> "Files":
        return self

    def position(self, app: str) -> int:
        return max((int(file.stem) for file in self._of(app).glob("*.json")), default=0)

    def violations(
        self, spark: SparkSession, stream: str, rows: DataFrame, columns: Sequence[str]
    ) -> DataFrame:
        return rows

    def apply(self, spark: SparkSession, changes: Changes) -> None:
        file = self._of(changes.publisher.app) / f"{changes.fold}.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        draft = file.with_suffix(".new")
        draft.write_text(json.dumps(changes.added.toArrow().to_pylist()))
        draft.rename(file)

    def audit(self, evidence: Evidence) -> Findings:
        folds = {int(file.stem) for file in self.folder.rglob("*.json")}
        missing = {evidence.position} - folds - {0}
        return {"lost": [Finding(f"fold {fold}", "its file is gone") for fold in missing]}

    def published_at(self, publisher: Publisher, fold: int) -> datetime | None:
        file = self._of(publisher.app) / f"{fold}.json"
        return datetime.fromtimestamp(file.stat().st_mtime, tz=UTC) if file.exists() else None

    def irreversible(self) -> str | None:
        return f"{self.folder} keeps what it was given. Publish to a table instead."

    def ids(self) -> list[int]:
        files = sorted(self.folder.rglob("*.json"), key=lambda file: int(file.stem))
        return [row["id"] for file in files for row in json.loads(file.read_text())]

    def _of(self, app: str) -> Path:
        return self.folder / app.replace("/", "-")


@pytest.fixture
def run(place):
    topology = Topology("own")
    numbers = topology.spout("numbers", DeltaSpout(place.add("numbers", id=[1, 2]), key="id"))
    topology.bolt(numbers, name="same")(lambda tuples: tuples)
    topology.publish("same", to=Files(place.folder / "files"))
    return place.run(topology)


@pytest.mark.extended
def test_a_target_of_ones_own_holds_each_fold_once_and_is_audited_and_traced(place, run):
    target = run.topology.publications["same"].target
    run_cycle(run)
    place.add("numbers", id=[3])
    run_cycle(run)
    assert publish(run) == 0
    assert sorted(target.ids()) == [1, 2, 3]
    (published,) = status_report(run.topology, run.store, place.clock())["published"]
    assert published == {"component": "same", "to": target.uri, "fold": 2}
    entries = [(entry.what, entry.detail) for entry in trace_report(run.topology, run.store, "0:3")]
    assert ("published", f"to {target.uri}") in entries
    assert audit_report(run.topology, run.store).passed


def test_what_a_target_of_ones_own_cannot_take_back_is_not_replayed(run):
    run_cycle(run)
    with pytest.raises(TopologyError, match=r"Acked messages cannot be replayed: .*files keeps what"):
        plan_by_hand(run, Selection(states=(State.ACKED,)), "why", "me")


@dataclass(frozen=True)
class Named(Files):
    """A target whose own fields have names that one would give them."""

    table: str = "orders"
    path: str = "/orders"
    key: str = "id"
    name: str = "orders"


def test_a_target_may_call_its_own_fields_as_it_likes(place, run, tmp_path):
    target = Named(place.folder / "named")
    assert (target.folder.name, target.table, target.delta_path, target.delta_table()) == (
        "named",
        "orders",
        None,
        None,
    )
    run.topology.bolt("numbers", name="other")(lambda tuples: tuples)
    run.topology.publish("other", to=target)
    run_cycle(run)
    assert sorted(target.ids()) == [1, 2]
    manifest = back_up(run.topology, run.store, str(tmp_path / "backup"), run.clock)
    assert manifest.elsewhere["other"] == target.uri


@dataclass(frozen=True)
class Table(Files):
    """A target that has its rows in a Delta table as well, and says no more of it than where that is."""

    @property
    def delta_path(self) -> str:
        return f"{self.folder}-table"


@dataclass(frozen=True)
class MovedTable(Table):
    def moved_to(self, path: str) -> "MovedTable":
        return MovedTable(Path(path))


def test_the_delta_table_of_a_target_of_ones_own_is_shown_and_backed_up(place, run, tmp_path):
    run_cycle(run)
    for kind, name in ((Table, "first"), (MovedTable, "second")):
        target = kind(place.folder / name)
        write_deltalake(target.delta_path, pa.table({"id": [1, 2]}))
        run.topology.publications = {"same": Publication("same", target)}
        assert published_rows(run.topology, "same", 5).rows == ((1,), (2,))
        if kind is Table:
            with pytest.raises(
                TopologyError, match=r"^Table has a delta_path and no method moved_to\(path\)\. Write"
            ):
                topology_in(str(tmp_path), run.topology)
        else:
            manifest = back_up(run.topology, run.store, str(tmp_path / "backup"), run.clock)
            assert manifest.published["same"].files == 1
            assert manifest.elsewhere == {}

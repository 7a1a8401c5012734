"""Damage to what a store notes of published tables: who published how far, and what was trimmed.

Nothing here needs Spark. Damage to `refusals` is in `test_refusals.py`.
"""

import shutil
from datetime import timedelta
from pathlib import Path

import pytest
from deltalake import DeltaTable

from acker.core.errors import StoreError
from acker.core.store.store import Store
from acker.operations.maintenance.trim import trim_streams
from acker.operations.replay import plan_by_hand
from acker.operations.selection.selection import Selection
from acker.reports.audit import audit_report
from tests.kit.polars_publisher import run_and_publish
from tests.kit.polars_topology import PolarsTopology, TableSource

FIRST = Selection(positions=(("0", 1),), states=("acked",))


@pytest.fixture
def run(place):
    """A run that has published messages 1 to 4, of which the first three are trimmed."""
    topology = PolarsTopology("copied", message_timeout=None)
    numbers = topology.spout("numbers", TableSource(place.path("numbers")))
    topology.publish(topology.bolt(numbers, name="rows")(lambda tuples: tuples), to=place.path("rows"))
    place.add("numbers", id=[1, 2, 3])
    run = place.run(topology)
    run_and_publish(run)
    place.clock.advance(60)
    trim_streams(run, timedelta(0))
    place.add("numbers", id=[4])
    run_and_publish(run)
    return run


def gone(path):
    shutil.rmtree(path)


def without_files(path):
    for file in DeltaTable(path).file_uris():
        Path(path, Path(file).name).unlink()


def torn(path):
    newest = sorted(Path(path, "_delta_log").glob("*.json"))[-1]
    newest.write_bytes(newest.read_bytes()[:100])


def emptied(path):
    DeltaTable(path).delete()


def put_back(path):
    DeltaTable(path).restore(DeltaTable(path).version() - 1)


def audited(run):
    """Why an audit that passes vouches for no contents, as another process tells it; empty where it does."""
    found = audit_report(run.topology, Store(run.store.uri, run.store.topology))
    assert found.passed, found.findings
    return found.streams["rows"].why


@pytest.mark.parametrize("damage", [gone, emptied, put_back])
def test_an_audit_says_that_what_was_kept_of_trimmed_rows_is_not_there(run, place, damage):
    if damage is put_back:
        place.clock.advance(60)
        trim_streams(run, timedelta(0))
    damage(run.store.path("kept/rows"))

    (why,) = audited(run)

    number = 4 if damage is put_back else 3
    assert why.startswith(f"{number} trimmed messages, of which nothing is kept: ")
    assert why.endswith("or what was kept was removed")
    plan_by_hand(run, FIRST, "again", "tester")
    run_and_publish(run)
    assert place.rows("rows") == [(1,), (2,), (3,), (4,)]


@pytest.mark.parametrize("damage", [torn, without_files])
def test_what_was_kept_of_trimmed_rows_and_cannot_be_read_stops_the_audit_and_who_takes_it_back(
    run, place, damage
):
    kept = run.store.path("kept/rows")
    damage(kept)
    with pytest.raises(StoreError, match=r"kept/rows cannot be read: .* docs/how-to/damage\.md"):
        audited(run)

    plan_by_hand(run, FIRST, "again", "tester")
    with pytest.raises(StoreError, match="kept/rows cannot be read: "):
        run_and_publish(run)
    shutil.rmtree(kept)  # the way out
    run_and_publish(run)

    assert place.rows("rows") == [(1,), (2,), (3,), (4,)]
    assert audited(run)[0].startswith("2 trimmed messages, of which nothing is kept: ")


@pytest.mark.parametrize("damage", [without_files, emptied, put_back])
def test_publishers_go_on_where_their_rows_are_gone_since_the_log_has_their_folds(run, place, damage):
    damage(run.store.path("publishers"))
    place.add("numbers", id=[5])

    run_and_publish(run)

    assert place.rows("rows") == [(1,), (2,), (3,), (4,), (5,)]
    assert audited(run) == ()


def test_a_torn_commit_of_publishers_stops_the_audit_and_the_publisher(run):
    torn(run.store.path("publishers"))

    for what in (audited, run_and_publish):
        with pytest.raises(StoreError, match=r"publishers cannot be read: .* docs/how-to/damage\.md"):
            what(run)


def test_publishers_that_are_gone_are_known_again_by_what_their_tables_hold(run, place):
    shutil.rmtree(run.store.path("publishers"))
    place.add("numbers", id=[5])
    with pytest.raises(StoreError, match=r"There is no table .*/publishers"):
        run_and_publish(run)

    run.store.create()  # as each command that runs does
    run_and_publish(run)

    assert place.rows("rows") == [(1,), (2,), (3,), (4,), (5,)]
    rows = run.store.require("publishers").to_pyarrow_table().select(["fold", "why"]).to_pylist()
    assert rows == [{"fold": 2, "why": "known before"}]
    assert audited(run) == ()


def test_publishers_and_their_table_that_are_gone_together_are_told_by_what_cannot_come_again(run, place):
    for path in (run.store.path("publishers"), place.path("rows")):
        shutil.rmtree(path)
    run.store.create()
    place.add("numbers", id=[5])

    run_and_publish(run)

    assert place.rows("rows") == [(4,), (5,)]
    found = audit_report(run.topology, run.store).findings["lost"]
    assert [each.message for each in found] == ["fold 1 of rows"]

"""A publisher that is stuck for what is no row's fault: told at once with its reason, in a day overdue."""

import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from acker.core.errors import StoreError
from acker.core.snapshot.verdict import Overdue
from acker.operations.cycle import run_bolt, run_cycle, run_spout
from acker.operations.fold import fold
from acker.operations.publish import publish
from acker.reports.audit import audit_json, audit_report
from acker.reports.health import findings
from acker.reports.looks import Look
from acker.spouts import DeltaSpout
from acker.targets.standing import StandingError
from acker.topology.topology import Topology
from tests.kit.limits import LIMITS
from tests.kit.mounts import read_only

DAY_SECONDS = 86_400
SINCE = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def run(place):
    """A run that has published sale 1 twice, and acked sales 2 and 3 that are to be published."""
    topology = Topology("sales")
    lines = topology.spout("lines", DeltaSpout(place.path("lines"), key="id"))
    for name in ("first", "second"):
        topology.publish(topology.bolt(lines, name=name)(lambda tuples: tuples), to=place.path(name))
    run = place.run(topology)
    place.add("lines", id=[1])
    run_cycle(run)
    place.add("lines", id=[2, 3])
    run_spout(run, topology.spouts[0])
    for bolt in topology.bolts:
        run_bolt(run, bolt)
    fold(run)
    return run


def judged(run):
    found = audit_report(run.topology, run.store, overdue_before=run.clock() - timedelta(days=1))
    return found.verdict, found.unpublished, found.overdue


def warned(run):
    return [each.said for each in findings(Look(run.topology, run.store, LIMITS, run.clock()))]


def test_a_table_that_cannot_be_written_to_is_told_with_its_reason_and_overdue_in_a_day(run, place):
    where = place.path("first")
    with read_only(Path(where)):
        with pytest.raises(StoreError) as raised:
            publish(run)
        assert place.rows("second") == [(1,), (2,), (3,)]  # which is none of its business
        why = str(raised.value)
        assert why.startswith(f"The table {where} cannot be written: ")
        said = f"Fold 2 does not go into {where} since 2026-01-01 00:00 UTC, tried once: {why}"
        assert (judged(run), warned(run)) == (("pass", 2, {}), [said])

        place.clock.advance(DAY_SECONDS + 1)
        late = Overdue(where, messages=2, untracked=False, fold=2, since=SINCE, tries=1, reason=why)
        assert judged(run) == ("fail", 2, {"first": late})
        assert str(late) == (
            f"2 messages of fold 2 and later are not published to {where} since 2026-01-01 00:00 UTC; "
            f"tried once: {why}"
        )
        with pytest.raises(StoreError):
            publish(run)
        assert judged(run)[2]["first"].tries == 2
    publish(run)
    assert (judged(run), warned(run)) == (("pass", 0, {}), [])


def test_a_table_that_is_gone_stops_the_audit_and_the_others_go_on(run, place):
    shutil.rmtree(place.path("first"))
    with pytest.raises(StandingError) as raised:
        publish(run)
    assert place.rows("second") == [(1,), (2,), (3,)]
    why = str(raised.value)
    assert why.startswith(f"{place.path('first')} is gone, and ")
    assert warned(run) == [why]
    with pytest.raises(StandingError, match="is gone, and "):
        judged(run)


def test_what_a_table_cannot_be_asked_hides_nothing_else_from_the_monitor(run, place):
    log = Path(place.path("first"), "_delta_log")
    log.rename(log.parent / "away")
    log.write_text("no folder")
    place.clock.advance(DAY_SECONDS)

    of_first, of_second = warned(run)

    assert of_first.startswith(f"The Delta table {place.path('first')} cannot be read: ")
    assert of_second.startswith(
        "Fold 2 is not published since 2026-01-01 00:00 UTC, longer than the 60 minutes"
    )


def test_what_is_overdue_is_in_the_json(run, place):
    place.clock.advance(2 * DAY_SECONDS)
    found = audit_report(run.topology, run.store, overdue_before=run.clock() - timedelta(days=1))
    assert audit_json(found)["overdue"] == {
        name: {
            **{"to": place.path(name), "messages": 2, "untracked": False, "fold": 2},
            **{"since": SINCE, "tries": 0, "reason": None},
        }
        for name in ("first", "second")
    }

"""What was acked long ago and is published nowhere, where nobody has tried to."""

from datetime import UTC, datetime, timedelta

import polars as pl

from acker.core.snapshot.refusals import record_refusals
from acker.core.snapshot.verdict import Overdue
from acker.core.store.schemas import LEDGER
from acker.operations.contents import MOST_PASSED_OVER
from acker.operations.cycle import run_bolt, run_spout
from acker.operations.fold import fold
from acker.reports.audit import audit_report
from tests.kit.polars_topology import PolarsTopology, TableSource, rows

DAY_SECONDS = 86_400
WEEK_SECONDS = 7 * DAY_SECONDS


def numbers(place):
    """Numbers, of which even ones go into one table and all into another."""
    topology = PolarsTopology("numbers")
    ones = topology.spout("ones", TableSource(place.path("ones")))
    even = topology.bolt(ones, name="even")(lambda tuples: tuples.filter(pl.col("id") % 2 == 0))
    every = topology.bolt(ones, name="every")(lambda tuples: tuples)
    topology.publish(even, to=place.path("evens"))
    topology.publish(every, to=place.path("all"))
    return topology


def acked(run, place, *ids):
    place.add("ones", id=[*ids])
    run_spout(run, run.topology.spouts[0])
    for bolt in run.topology.bolts:
        run_bolt(run, bolt)
    fold(run)


def overdue(run):
    found = audit_report(run.topology, run.store, overdue_before=run.clock() - timedelta(days=1))
    return found.verdict, found.overdue


def test_what_nobody_publishes_for_a_week_fails_the_audit_with_since_when(place):
    run = place.run(numbers(place))
    acked(run, place, 1, 2, 3)
    assert overdue(run) == ("pass", {})
    place.clock.advance(WEEK_SECONDS)
    acked(run, place, 4, 5, 6)  # which may wait

    since = datetime(2026, 1, 1, tzinfo=UTC)
    late = {
        "even": Overdue(place.path("evens"), messages=1, untracked=False, fold=1, since=since),
        "every": Overdue(place.path("all"), messages=3, untracked=False, fold=1, since=since),
    }
    assert overdue(run) == ("fail", late)
    assert str(late["every"]) == (
        f"3 messages of fold 1 and later are not published to {place.path('all')} since "
        "2026-01-01 00:00 UTC; no try has raised"
    )
    assert audit_report(run.topology, run.store).verdict == "pass"  # which is not asked for it


def test_a_fold_that_has_nothing_for_a_table_is_not_overdue_there(place):
    run = place.run(numbers(place))
    for number in range(MOST_PASSED_OVER + 1):
        acked(run, place, 2 * number + 1)
    place.clock.advance(WEEK_SECONDS)

    verdict, found = overdue(run)

    assert (verdict, [*found], found["every"].messages) == ("fail", ["every"], MOST_PASSED_OVER + 1)


def test_a_message_that_was_refused_and_is_given_up_by_no_fold_is_overdue(place):
    run = place.run(numbers(place))
    acked(run, place, 2, 3)
    ledger = rows(run.store.require(LEDGER), "source_offset = 2 AND state = 'acked'")
    refused = ledger.select("root_id", reason=pl.lit("too small"))
    record_refusals(run.snapshot(), "every", place.path("all"), 1, refused, run.clock())
    place.clock.advance(WEEK_SECONDS)

    found = overdue(run)[1]

    assert {name: each.messages for name, each in found.items()} == {"even": 1, "every": 2}
    fold(run)  # message 3 waits still, and 2 has nothing to leave
    assert {name: each.messages for name, each in overdue(run)[1].items()} == {"even": 1, "every": 1}

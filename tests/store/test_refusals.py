"""What becomes of acked messages that a published table has refused, once a fold reads of it."""

import shutil

import polars as pl
import pytest

from acker.core.errors import StoreError
from acker.core.snapshot.ledger import newest_fold
from acker.core.snapshot.refusals import leaving, read_by_fold, record_refusals, refused_roots
from acker.core.store.schemas import LEDGER, REFUSALS
from acker.operations.cycle import run_bolt, run_spout
from acker.operations.fold import fold
from acker.operations.replay import plan_by_hand
from acker.operations.selection.matching import select
from acker.operations.selection.selection import Selection
from acker.reports.audit import audit_report
from acker.reports.waiting import waits_for_acker
from tests.kit.polars_topology import PolarsTopology, TableSource

ACKED = Selection(states=("acked",))


def numbers(place):
    topology = PolarsTopology("numbers")
    ones = topology.spout("ones", TableSource(place.path("ones")))
    topology.bolt(ones, name="same")(lambda tuples: tuples)
    return topology


def cycle(run):
    for spout in run.topology.spouts:
        run_spout(run, spout)
    for bolt in run.topology.bolts:
        run_bolt(run, bolt)
    return fold(run)


@pytest.fixture
def run(place):
    """A run in which fold 1 has acked messages 1 to 3."""
    place.add("ones", id=[1, 2, 3])
    run = place.run(numbers(place))
    cycle(run)
    return run


def root_of(run, offset):
    (root,) = [
        row["root_id"] for row in rows(run) if row["source_offset"] == offset and row["state"] == "acked"
    ]
    return root


def rows(run):
    found = pl.DataFrame(run.store.require(LEDGER).to_pyarrow_table())
    return found.filter(pl.col("root_id").is_not_null()).rows(named=True)


def refuse(run, *offsets, stream="same", fold=1):
    refused = pl.DataFrame({"root_id": [root_of(run, each) for each in offsets], "reason": "too small"})
    return record_refusals(run.snapshot(), stream, "/rows", fold, refused, run.clock())


def test_a_fold_gives_up_what_a_table_has_refused(run, states):
    assert refuse(run, 2)
    assert waits_for_acker(run.topology, run.snapshot(), run.clock()) == [
        "acked messages were refused by a published table: 1"
    ]

    fold(run)

    assert states(run) == [
        *((1, 1, "acked"), (2, 1, "acked"), (2, 1, "dead_letter"), (2, 1, "failed"), (3, 1, "acked"))
    ]
    (dead,) = [row for row in rows(run) if row["state"] == "dead_letter"]
    told = {name: dead[name] for name in ("component", "reason", "fold", "batch", "root_id", "replaces")}
    assert told == {
        **{"component": "same", "reason": "too small", "fold": 2, "batch": 1},
        **{"root_id": root_of(run, 2), "replaces": None},
    }
    assert waits_for_acker(run.topology, run.snapshot(), run.clock()) == []
    assert fold(run).refusals == 1


def test_a_replay_of_what_was_refused_replaces_nothing(run):
    refuse(run, 2)
    fold(run)

    found = select(run.topology, run.snapshot(), Selection(states=("acked", "dead_letter"))).emissions

    replaces = dict(found.select("source_offset", "replaces").rows())
    assert replaces == {1: root_of(run, 1), 2: None, 3: root_of(run, 3)}
    assert dict(found.select("source_offset", "attempt").rows()) == {1: 2, 2: 2, 3: 2}


def test_who_records_a_refusal_has_seen_those_before(run):
    before = run.snapshot()
    refused = pl.DataFrame({"root_id": [root_of(run, 1)], "reason": ["too small"]})
    assert before.open(REFUSALS) is not None
    refuse(run, 2)

    assert not record_refusals(before, "same", "/rows", 1, refused, run.clock())
    assert refused_roots(run.store.open(REFUSALS), ["same"], None)["root_id"].to_list() == [root_of(run, 2)]


def test_a_message_that_is_emitted_again_is_not_given_up(run, states):
    plan_by_hand(run, ACKED, "again", "tester")
    refuse(run, 2)

    cycle(run)

    assert [state for offset, _, state in states(run) if offset == 2] == ["acked", "failed", "acked"]


def test_what_two_tables_refuse_is_given_up_once_and_leaves_once(run, states):
    refuse(run, 2)
    fold(run)
    refuse(run, 2, 3, stream="other")
    fold(run)

    found = [each for each in states(run) if each[0] == 2]
    assert found == [(2, 1, state) for state in ("acked", "dead_letter", "failed", "failed")]
    read = read_by_fold(run.store.require(LEDGER), 0, 3)
    assert read == {1: (0, 0), 2: (0, 1), 3: (1, 2)}
    left = [
        leaving(run.store.require(LEDGER), run.store.open(REFUSALS), n, read[n])["root_id"].to_list()
        for n in (2, 3)
    ]
    assert left == [[root_of(run, 2)], [root_of(run, 3)]]


def test_what_a_later_attempt_has_replaced_leaves_no_table_again(run):
    plan_by_hand(run, ACKED, "again", "tester")
    cycle(run)
    refuse_first = [row["root_id"] for row in rows(run) if (row["source_offset"], row["attempt"]) == (2, 1)]
    refused = pl.DataFrame({"root_id": refuse_first[:1], "reason": ["too small"]})
    record_refusals(run.snapshot(), "same", "/rows", 1, refused, run.clock())
    fold(run)

    read = read_by_fold(run.store.require(LEDGER), 2, 3)

    assert leaving(run.store.require(LEDGER), run.store.open(REFUSALS), 3, read[3]).height == 0
    assert newest_fold(run.store).refusals == 1


@pytest.mark.parametrize("damage", [lambda table: table.delete(), lambda table: table.restore(1)])
def test_refusals_whose_rows_are_gone_stop_the_fold_that_reads_them(run, damage):
    refuse(run, 2)
    refuse(run, 3, stream="other")
    damage(run.store.require(REFUSALS))

    with pytest.raises(StoreError, match=r"refusals has rows of \d of the 2 commits after 0"):
        fold(run)


def without(run, copy):
    shutil.rmtree(run.store.path(REFUSALS))


def made_anew(run, copy):
    without(run, copy)
    run.store.create()


def put_back(run, copy):
    without(run, copy)
    shutil.copytree(copy, run.store.path(REFUSALS))


READERS = (
    fold,
    lambda run: refuse(run, 3, stream="other"),
    lambda run: select(run.topology, run.snapshot(), ACKED),
    lambda run: waits_for_acker(run.topology, run.snapshot(), run.clock()),
    lambda run: audit_report(run.topology, run.store),
)


@pytest.mark.parametrize("damage", [made_anew, put_back])
def test_refusals_that_are_fewer_than_a_fold_has_read_stop_what_reads_them(run, place, damage):
    refuse(run, 1)
    shutil.copytree(run.store.path(REFUSALS), place.path("copy"))
    refuse(run, 2)
    fold(run)
    damage(run, place.path("copy"))
    there = {made_anew: 0, put_back: 1}[damage]

    for read in READERS:
        with pytest.raises(StoreError, match=f"refusals has {there} commits, and a fold has read 2: "):
            read(run)


def test_refusals_that_are_gone_stop_an_audit(run):
    refuse(run, 2)
    fold(run)
    without(run, None)

    with pytest.raises(StoreError, match="refusals has 0 commits, and a fold has read 1: it was removed"):
        audit_report(run.topology, run.store)

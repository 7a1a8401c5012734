"""The audit of published rows by what they say, also of what was trimmed. Nothing here needs Spark."""

import shutil
from datetime import UTC, datetime, timedelta

import polars as pl
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from acker.core.events import State
from acker.core.snapshot.kept import kept
from acker.core.snapshot.trims import append_trim
from acker.operations.maintenance.trim import trim_streams
from acker.operations.replay import plan_by_hand
from acker.operations.selection.selection import Selection
from acker.reports.audit import audit_report
from acker.targets.standing import StandingError
from tests.kit.polars_publisher import run_and_publish
from tests.kit.polars_topology import PolarsTopology, TableSource

NOTHING = {"lost": [], "unexpected": [], "duplicated": []}
ACKED_3 = Selection(positions=(("0", 3),), states=(State.ACKED,))
OLD = datetime(1500, 1, 1, tzinfo=UTC)


def copying(place, bolt="rows", **settings):
    """Each number of the source becomes two rows of the table `rows`."""
    topology = PolarsTopology("copied", message_timeout=None, **settings)
    numbers = topology.spout("numbers", TableSource(place.path("numbers")))

    @topology.bolt(numbers, name=bolt)
    def rows(tuples):
        both = tuples.join(pl.DataFrame({"which": ["a", "b"]}), how="cross")
        return both.with_columns(part=pl.col("value") / 4, at=pl.lit(OLD))

    topology.publish(rows, to=place.path("rows"))
    return topology


@pytest.fixture
def run(place):
    place.add("numbers", id=[1, 2, 3, 4, 5, 6], value=[1, 2, 3, 4, 5, 6])
    run = place.run(copying(place))
    run_and_publish(run)
    return run


def judged(run):
    """The findings by kind, each as what and why, without the table's name."""
    result = audit_report(run.topology, run.store)
    found = {
        kind: sorted((each.message.rpartition("/")[2], each.why.partition(" in ")[0]) for each in found)
        for kind, found in result.findings.items()
    }
    return found, [(each.compared, each.by_count, each.not_compared) for each in result.streams.values()]


def sound(messages):
    return NOTHING, [(messages, 0, 0)]


def table(place):
    return DeltaTable(place.path("rows"))


def edited(place, edit):
    """Put back the published rows as an edit of them makes them."""
    rows = pa.table(table(place).to_pyarrow_table())
    rows = edit(rows.sort_by([("id", "ascending"), ("which", "ascending")]).to_pylist())
    write_deltalake(
        place.path("rows"),
        pa.Table.from_pylist(rows, table(place).to_pyarrow_table().schema),
        mode="overwrite",
    )


def trim_all(place, run):
    place.clock.advance(60)
    assert set(trim_streams(run, timedelta(0)).values()) == {1}


WRONG = "its rows"
OTHERS = "rows of no message of rows"
EDITS = {
    "of a message's two rows one is doubled and one is gone": (
        lambda rows: [*rows[:2], rows[2], rows[2], *rows[4:]],
        {"unexpected": [("numbers:0:2", WRONG)]},
    ),
    "a value is edited": (
        lambda rows: [{**rows[0], "part": 9.5}, *rows[1:]],
        {"unexpected": [("numbers:0:1", WRONG)]},
    ),
    "a value is null": (
        lambda rows: [{**rows[0], "which": None}, *rows[1:]],
        {"unexpected": [("numbers:0:1", WRONG)]},
    ),
    "a number is none": (
        lambda rows: [{**rows[0], "part": float("nan")}, *rows[1:]],
        {"unexpected": [("numbers:0:1", WRONG)]},
    ),
    "two messages are exchanged": (
        lambda rows: [
            *({**each, "_root_id": rows[2]["_root_id"]} for each in rows[:2]),
            *({**each, "_root_id": rows[0]["_root_id"]} for each in rows[2:4]),
            *rows[4:],
        ],
        {"unexpected": [("numbers:0:1", WRONG), ("numbers:0:2", WRONG)]},
    ),
    "rows of no message are put in": (
        lambda rows: [*rows, {**rows[0], "_root_id": None}],
        {"unexpected": [(OTHERS, "1 of 0 rows")]},
    ),
    "rows are lost and doubled": (
        lambda rows: [*rows[1:], *rows[2:4]],
        {"lost": [("numbers:0:1", "1 of 2 rows")], "duplicated": [("numbers:0:2", "4 of 2 rows")]},
    ),
}


def test_rows_that_do_not_say_what_was_acked_are_found(place, run):
    assert judged(run) == sound(6)
    before = table(place).version()
    for name, (edit, found) in EDITS.items():
        edited(place, edit)
        assert (name, judged(run)[0]) == (name, NOTHING | found)
        table(place).restore(before)
    assert judged(run) == sound(6)


def test_rows_may_be_counted_alone_and_that_is_said(place, run):
    edited(place, lambda rows: [{**rows[0], "part": 9.5}, *rows[1:]])
    result = audit_report(run.topology, run.store, contents=False)
    (stream,) = result.streams.values()
    assert (result.passed, result.vouches) == (True, False)
    assert (stream.compared, stream.by_count, stream.why) == (0, 6, ("only numbers were asked for",))


def test_what_was_trimmed_is_compared_fold_by_fold(place, run):
    trim_all(place, run)
    place.add("numbers", id=[7, 8], value=[7, 8])
    run_and_publish(run)
    assert judged(run) == sound(8)
    before = table(place).version()
    edited(place, lambda rows: [{**rows[0], "part": 9.5}, *rows[1:]])
    assert judged(run)[0] == NOTHING | {"unexpected": [("fold 1 of rows", "its trimmed rows")]}
    table(place).restore(before)
    edited(place, lambda rows: [*rows[5:], *rows[-4:], *rows[-4:-2]])
    assert judged(run)[0] == {
        "lost": [("fold 1 of rows", "7 of 12 trimmed rows")],
        "duplicated": [("numbers:0:7", "6 of 2 rows"), ("numbers:0:8", "4 of 2 rows")],
        "unexpected": [],
    }
    table(place).restore(before)
    trim_all(place, run)
    assert judged(run) == sound(8)


def test_a_table_that_lost_what_was_trimmed_is_found_and_so_is_one_that_is_gone(place, run):
    trim_all(place, run)
    table(place).delete("id > 1")
    assert judged(run)[0] == NOTHING | {"lost": [("fold 1 of rows", "2 of 12 trimmed rows")]}
    shutil.rmtree(place.path("rows"))
    with pytest.raises(StandingError, match=r"rows is gone, and .* has published fold 1 there"):
        audit_report(run.topology, run.store)


def test_what_a_replay_takes_back_of_trimmed_rows_is_not_expected_any_more(place, run):
    trim_all(place, run)
    DeltaTable(place.path("numbers")).update(predicate="id = 3", updates={"value": "30"})
    plan_by_hand(run, ACKED_3, "it was wrong", "me")
    run_and_publish(run)
    assert judged(run) == sound(6)
    edited(place, lambda rows: [{**rows[0], "part": 9.5}, *rows[1:]])
    assert judged(run)[0] == NOTHING | {"unexpected": [("fold 1 of rows", "its trimmed rows")]}


def test_of_damaged_rows_that_a_replay_took_back_the_rest_of_the_fold_is_not_vouched_for(place, run):
    trim_all(place, run)
    edited(place, lambda rows: [{**each, "part": 9.5} if each["id"] == 3 else each for each in rows])
    plan_by_hand(run, ACKED_3, "it was damaged", "me")
    run_and_publish(run)
    assert judged(run) == (NOTHING, [(1, 0, 5)])
    plan_by_hand(run, Selection(states=(State.ACKED,)), "the others as well", "me")
    run_and_publish(run)
    assert judged(run) == sound(6)


def test_what_an_older_version_has_trimmed_is_not_vouched_for(place, run):
    trim_all(place, run)
    shutil.rmtree(run.store.path(kept("rows")))  # which it did not have
    place.add("numbers", id=[7], value=[7])
    run_and_publish(run)
    assert judged(run) == (NOTHING, [(1, 0, 6)])
    trim_all(place, run)
    assert judged(run) == (NOTHING, [(1, 0, 6)])
    edited(place, lambda rows: rows[:-1])
    assert judged(run)[0] == NOTHING | {"lost": [("fold 2 of rows", "1 of 2 trimmed rows")]}


def check_others(place, run):
    """What is wrong with rows of no message is found."""
    before = table(place).version()
    for edit, found in (
        (lambda rows: rows, {}),
        (lambda rows: rows[:4], {"lost": [(OTHERS, "4 of 8 rows")]}),
        (lambda rows: [*rows, *rows], {"duplicated": [(OTHERS, "16 of 8 rows")]}),
        (lambda rows: [{**rows[0], "which": "c"}, *rows[1:]], {"unexpected": [(OTHERS, "they do not say")]}),
    ):
        edited(place, edit)
        assert judged(run) == (NOTHING | found, [(0, 0, 0)])
        table(place).restore(before)


def test_rows_of_no_message_are_compared_altogether(place):
    place.add("numbers", id=[1, 2, 3, 4], value=[1, 2, 3, 4])
    run = place.run(copying(place, reliable=False))
    run_and_publish(run)
    check_others(place, run)
    trim_all(place, run)
    check_others(place, run)


def test_what_a_renamed_bolt_had_published_is_compared_as_well(place, run):
    renamed = place.run(copying(place, bolt="rows_again"))
    place.add("numbers", id=[7], value=[7])
    run_and_publish(renamed)
    assert judged(renamed) == sound(7)
    place.clock.advance(60)
    trim_streams(renamed, timedelta(0))
    assert judged(renamed) == sound(7)
    edited(place, lambda rows: [{**rows[0], "part": 9.5}, *rows[1:]])
    assert judged(renamed)[0] == NOTHING | {"unexpected": [("fold 1 of rows_again", "its trimmed rows")]}


def test_a_bolt_that_was_renamed_takes_back_what_was_trimmed_before(place, run):
    trim_all(place, run)
    renamed = place.run(copying(place, bolt="rows_again"))
    plan_by_hand(renamed, ACKED_3, "it was wrong", "me")
    run_and_publish(renamed)
    assert judged(renamed) == sound(6)
    edited(place, lambda rows: [{**rows[0], "part": 9.5}, *rows[1:]])
    assert judged(renamed)[0] == NOTHING | {"unexpected": [("fold 1 of rows_again", "its trimmed rows")]}


@pytest.mark.parametrize("more", [False, True])
def test_a_trimming_that_was_cut_short_before_it_was_counted_keeps_what_goes_once(
    place, run, monkeypatch, more
):
    place.clock.advance(60)
    with monkeypatch.context() as patch:
        patch.setattr("acker.operations.maintenance.trim.append_trim", cut_short(append_trim))
        with pytest.raises(KeyboardInterrupt):
            trim_streams(run, timedelta(0))
    DeltaTable(place.path("numbers")).update(predicate="id = 3", updates={"value": "30"})
    plan_by_hand(run, ACKED_3, "it was wrong", "me")
    run_and_publish(run)
    place.clock.advance(60 if more else 0)
    trim_streams(run, timedelta(seconds=30))
    assert judged(run) == sound(6)
    assert run.store.require(kept("rows")).to_pyarrow_table().num_rows > 0


def cut_short(append):
    """As if a trimming was killed before it is counted."""

    def announce(store, trim, now):
        if trim.tuples is not None:
            raise KeyboardInterrupt
        return append(store, trim, now)

    return announce


def test_between_the_counting_of_what_goes_and_its_deletion_it_counts_once(place, run, monkeypatch):
    place.clock.advance(60)
    with monkeypatch.context() as patch:
        patch.setattr(
            "acker.operations.maintenance.trim._delete", lambda *args: None
        )  # as if it was killed before
        trim_streams(run, timedelta(0))
    assert judged(run) == sound(6)
    trim_streams(run, timedelta(0))
    assert judged(run) == sound(6)
    assert run.store.require(kept("rows")).to_pyarrow_table().num_rows == 2


@pytest.mark.parametrize("quick", [False, True], ids=["whole", "quick"])
@pytest.mark.parametrize("name", ["string", "binary", "bool", "decimal", "struct", None])
def test_a_table_whose_root_ids_are_none_any_more_is_told(place, run, name, quick):
    rows = DeltaTable(place.path("rows")).to_pyarrow_table()
    at, count = rows.schema.get_field_index("_root_id"), rows.num_rows
    kinds = {
        "string": pa.array(["x"] * count),
        "binary": pa.array([b"x"] * count),
        "bool": pa.array([True] * count),
        "decimal": pa.array([1] * count).cast(pa.decimal128(38, 0)),
        "struct": pa.array([{"a": 1}] * count),
    }
    odd = rows.set_column(at, "_root_id", kinds[name]) if name else rows.drop_columns(["_root_id"])
    write_deltalake(place.path("rows"), odd, mode="overwrite", schema_mode="overwrite")
    found = audit_report(run.topology, run.store, contents=not quick)
    (finding,) = found.findings["unexpected"]
    kind = {"bool": "boolean", "decimal": "decimal(38,0)"}.get(name, name)
    assert finding.why.startswith(f"has _root_id as {kind}, and" if name else "has no _root_id, which was")
    assert (found.verdict, found.vouches) == ("fail", False)

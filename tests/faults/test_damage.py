"""Damage to a store's files and rows: it is named and stops what cannot go on, and there is a way out of it.

Each case damages a copy of one living store, tries the commands, and takes the way out, which must end in the
right rows and an audit that passes.
"""

import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from acker.core.store.tables import arrow_table, files_of
from acker.operations.standing import republish
from tests.faults.damaged import PUBLISHED, Damaged
from tests.faults.damaged import living as living
from tests.faults.damaged import place as place

KIND = "damage"

OWN = ("batches", "events", "ledger")
STREAMS = ("streams/numbers", "streams/squared")
TABLES = (*OWN, *STREAMS, "squares")
LOOKS = ("audit", "status", "trace")
STEPS = ("fold", "publish")


@dataclass(frozen=True)
class Damage:
    """One damage.

    Args:
        table: which is damaged, and named by all that stops.
        stops: the commands that stop.
        way_out: what an operator does, and then `run` completes. None: it completes by itself.
    """

    table: str
    damage: Callable[[Damaged], None]
    stops: tuple[str, ...]
    way_out: Callable[[Damaged, str], None] | None


# What is done to a table.


def files(place: Damaged, table: str) -> list[Path]:
    """Of the newest version, oldest first."""
    actions = arrow_table(place.table(table).get_add_actions(flatten=True)).to_pylist()
    actions.sort(key=lambda action: (action["modification_time"], action["path"]))
    return [place.path(table) / action["path"] for action in actions]


def without_file(index: int) -> Callable[[Damaged, str], None]:
    return lambda place, table: files(place, table)[index].unlink()


def without_newest(settled: bool) -> Callable[[Damaged, str], None]:
    """The ledger without its newest file of settled rows, or of live ones."""

    def damage(place: Damaged, table: str) -> None:
        of_settled = set(files_of(place.table(table), "live_in IS NULL"))
        [each for each in files(place, table) if (str(each) in of_settled) == settled][-1].unlink()

    return damage


def without_files(place: Damaged, table: str) -> None:
    for file in files(place, table):
        file.unlink()


def commits(place: Damaged, table: str) -> list[Path]:
    return sorted((place.path(table) / "_delta_log").glob("*.json"))


def torn_commit(place: Damaged, table: str) -> None:
    newest = commits(place, table)[-1]
    newest.write_bytes(newest.read_bytes()[:100])


def empty_commit(place: Damaged, table: str) -> None:
    commits(place, table)[-1].write_bytes(b"")


def without_last_commit(place: Damaged, table: str) -> None:
    commits(place, table)[-1].unlink()


def without_middle_commit(place: Damaged, table: str) -> None:
    commits(place, table)[-2].unlink()


def without_checkpoint(place: Damaged, table: str) -> None:
    place.table(table).create_checkpoint()
    next((place.path(table) / "_delta_log").glob("*.checkpoint.parquet")).unlink()


def restored(place: Damaged, table: str, versions: int = 1) -> None:
    place.table(table).restore(place.table(table).version() - versions)


def restored_far(place: Damaged, table: str) -> None:
    restored(place, table, 2)


def without(place: Damaged, table: str) -> None:
    shutil.rmtree(place.path(table))


def rewritten(change: Callable[[pa.Table], pa.Table]) -> Callable[[Damaged, str], None]:
    """Overwrites a table with what a function makes of its rows."""

    def overwrite(place: Damaged, table: str) -> None:
        found = place.table(table).to_pyarrow_table()
        write_deltalake(str(place.path(table)), change(found), mode="overwrite", schema_mode="overwrite")

    return overwrite


def renamed(column: str) -> Callable[[Damaged, str], None]:
    return rewritten(lambda rows: rows.rename_columns({column: "other"}))


def dropped(column: str) -> Callable[[Damaged, str], None]:
    return rewritten(lambda rows: rows.drop_columns(column))


def retyped(column: str) -> Callable[[Damaged, str], None]:
    def text(rows: pa.Table) -> pa.Table:
        index = rows.schema.get_field_index(column)
        return rows.set_column(index, column, rows[column].cast(pa.string()))

    return rewritten(text)


def edited(where: str, **values: str) -> Callable[[Damaged, str], None]:
    def update(place: Damaged, table: str) -> None:
        assert place.table(table).update(updates=values, predicate=where)["num_updated_rows"]

    return update


def deleted(where: str) -> Callable[[Damaged, str], None]:
    def delete(place: Damaged, table: str) -> None:
        assert place.table(table).delete(where)["num_deleted_rows"]

    return delete


def doubled(*filters: tuple[str, str, object]) -> Callable[[Damaged, str], None]:
    def append(place: Damaged, table: str) -> None:
        rows = place.table(table).to_pyarrow_table(filters=[list(filters)])
        assert rows.num_rows
        write_deltalake(str(place.path(table)), rows, mode="append")

    return append


# The ways out.


def undone(place: Damaged, table: str) -> None:
    """The table's version before the damage, which was one commit."""
    place.table(table).restore(place.table(table).version() - 1)


def repaired(place: Damaged, table: str) -> None:
    """The table goes on without the files that are lost."""
    place.table(table).repair()


def without_torn_commit(place: Damaged, table: str) -> None:
    commits(place, table)[-1].unlink()


def without_hint(place: Damaged, table: str) -> None:
    (place.path(table) / "_delta_log/_last_checkpoint").unlink()


def anew(place: Damaged, table: str) -> None:
    """The published table is dropped, and all is published again."""
    without(place, table)
    republish(place.run, "squared")


def all_from_yesterday(place: Damaged, table: str) -> None:
    """The store and the published table as they were at the same moment."""
    place.move()
    for name in ("", "squares"):
        shutil.rmtree(place.path(name))
        shutil.copytree(place.on("yesterday").path(name), place.path(name))


def all_anew(place: Damaged, table: str) -> None:
    """Everything is read and published again."""
    place.move()
    shutil.rmtree(place.folder / "store")
    shutil.rmtree(place.path("squares"))
    place.store.create()


def case(
    what: str,
    table: str,
    damage: Callable[[Damaged, str], None],
    stops: tuple[str, ...] = (),
    way_out: Callable[[Damaged, str], None] | None = None,
    tier: str = "thorough",
) -> object:
    found = Damage(table, lambda place: damage(place, table), stops, way_out)
    marks = [getattr(pytest.mark, tier)] if tier else []
    return pytest.param(found, id=f"{table.rpartition('/')[2]} {what}", marks=marks)


def extended_for(table: str, of: str) -> str:
    return "extended" if table == of else "thorough"


ALL = (*LOOKS, *STEPS)
BUT_TRACE = ("audit", "status", *STEPS)
NEW = "component = 'squared' AND batch = 4"  # logged and not folded
NEW_ROWS = (("component", "=", "squared"), ("batch", "=", 4))
CASES = [
    # Files.
    case("without its newest file", "events", without_file(-1), (*LOOKS, "fold"), without, tier=""),
    case("without its files", "events", without_files, ALL, without),
    case("without a file that is folded", "events", without_file(0), ("audit", "trace"), repaired),
    case("without its newest settled file", "ledger", without_newest(settled=True), ALL,
         all_from_yesterday),
    case("without its newest live file", "ledger", without_newest(settled=False), (*LOOKS, "fold"),
         all_from_yesterday),
    case("without its files", "ledger", without_files, ALL, all_anew),
    case("without a file", "batches", without_file(0), ALL, all_from_yesterday),
    case("without its newest file", "streams/numbers", without_file(-1), ("fold",), repaired,
         tier="extended"),
    case("without its newest file", "streams/squared", without_file(-1), ("audit", "publish"),
         all_from_yesterday),
    case("without its files", "streams/squared", without_files, ("audit", "publish"), all_anew),
    case("without its newest file", "squares", without_file(-1), ("audit",), anew, tier="extended"),
    # Logs.
    *[case("with a torn commit", t, torn_commit, ALL, without_torn_commit, extended_for(t, "events"))
      for t in OWN],
    *[case("without its last commit", t, without_last_commit) for t in OWN],
    *[case("with an empty commit", t, empty_commit, tier=extended_for(t, "events")) for t in OWN],
    case("without a commit", "batches", without_middle_commit, ALL, all_from_yesterday),
    case("without a commit", "ledger", without_middle_commit, ALL, all_from_yesterday),
    case("without a commit", "events", without_middle_commit, ALL, without),
    *[case("without its checkpoint", t, without_checkpoint, ALL, without_hint, extended_for(t, "ledger"))
      for t in OWN],
    # Versions.
    case("put back a version", "batches", restored, ("audit",), undone),
    case("put back a version", "events", restored, ("audit", "fold"), undone, tier="extended"),
    case("put back a version", "ledger", restored, ALL, undone),
    case("put back two versions", "streams/squared", restored_far, ("audit", "publish"), undone, tier=""),
    case("put back a version", "streams/numbers", restored),
    case("put back a version", "squares", restored, ("audit", "publish"), undone),
    # Columns.
    case("with another column", "events", renamed("consumed"), ALL, undone),
    case("without a column", "ledger", dropped("joined"), ALL, undone, tier="extended"),
    case("with another type", "batches", retyped("batch"), ALL, undone),
    case("without a column", "streams/squared", dropped("_batch"), ("audit", "publish"), undone),
    case("without a column", "squares", dropped("_root_id"), ("audit",), undone),
    # Rows.
    case("with an edited row", "events", edited(f"{NEW} AND root_id IS NOT NULL", ack_val="0"),
         ("audit", "fold"), undone, tier=""),
    case("with a row twice", "events", doubled(*NEW_ROWS), ("audit", "fold"), undone),
    case("without a row", "events", deleted(f"{NEW} AND root_id IS NOT NULL"), ("audit", "fold"), undone),
    case("without a batch", "events", deleted(NEW), ("audit", "fold"), undone),
    case("with an edited row that is folded", "events", edited("batch = 1 AND kind = 'ack'", ack_val="0"),
         ("audit",), undone),
    case("without a row", "batches", deleted("component = 'squared' AND batch = 2"),
         ("audit", "trace", "publish"), undone),
    case("with a row twice", "batches", doubled(("component", "=", "numbers"), ("batch", "=", 2)),
         ("audit",), undone),
    case("with an edited live row", "ledger", edited("live_in = 3", ack_val="1"), ("audit", "fold"), undone),
    case("without a live row", "ledger", deleted("live_in = 3"), ("audit", "fold"), undone),
    case("with an edited row", "ledger", edited("state = 'acked' AND fold = 1", ack_val="1"),
         ("audit",), undone, tier="extended"),
    case("with a row twice", "ledger", doubled(("state", "=", "acked"), ("fold", "=", 1)),
         ("audit",), undone),
    case("without a row", "ledger", deleted("state = 'failed' AND fold = 1"), ("audit",), undone),
    case("without a row", "squares", deleted("id = 1"), ("audit",), undone),
    case("with a row twice", "squares", doubled(("id", "=", 1)), ("audit",), undone),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_damage_is_named_and_has_a_way_out(place, case):
    case.damage(place)
    before = place.rows() if case.table != "squares" else []
    # What undoes a damage serves only where nothing was committed since.
    steps = [step for step in STEPS if case.way_out is not undone or step in case.stops]
    said = {look: place.ask(look) for look in LOOKS} | {step: place.step(step) for step in steps}
    assert tuple(name for name, text in said.items() if text) == case.stops, said
    if case.way_out is not undone:
        said["run"] = place.step("run")
        assert bool(said["run"]) == bool(set(STEPS) & set(case.stops)), said
    where = "today\\w*/squares" if case.table == "squares" else case.table
    if case.table == "streams/squared":  # of which Spark names the table that it writes to meanwhile
        where = f"({where}|today\\w*/squares)"
    assert all(re.search(rf"{where}\b", text) for text in said.values() if text), said
    assert case.table == "squares" or set(before) <= set(place.rows()) <= set(PUBLISHED)
    if case.way_out is not None:
        case.way_out(place, case.table)
    assert place.step("run") == ""
    assert place.rows() == PUBLISHED
    assert [place.ask(look) for look in LOOKS] == ["", "", ""]

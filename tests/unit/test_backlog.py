"""What a source holds beyond what was planned, as spouts tell it without Spark."""

import json
import os
import sys
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from acker.airflow import tasks
from acker.cli import rendering as render
from acker.core.errors import SourceError
from acker.core.quoting import printable
from acker.core.snapshot.inputs import SourceRange
from acker.core.snapshot.journal import Journal
from acker.core.snapshot.planned import Batch
from acker.core.store.store import Store
from acker.operations.fold import fold
from acker.reports.audit import audit_report
from acker.reports.sources import SourceBacklog, amounts, left_out, never_read, source_backlogs
from acker.reports.status import status_report
from acker.spouts import Backlog, Changed, DeltaSpout, FileSpout, History
from acker.spouts.delta.log import highest_row_id, oldest_commit
from acker.topology.topology import Topology
from tests.unit.fuzzed import ODD, shop

LONG_AGO = datetime(2026, 1, 1, tzinfo=UTC)


def after(*planned):
    """The history of a spout that planned these ranges."""
    return History(planned[-1] if planned else None, lambda: list(planned))


def write(folder, **files):
    """Files with their texts, each a second younger than the one before it."""
    folder.mkdir(exist_ok=True)
    for second, (name, text) in enumerate(files.items()):
        (folder / name).write_text(text)
        os.utime(folder / name, (LONG_AGO.timestamp() + second,) * 2)
    return FileSpout(str(folder))


def planned(*files):
    """A range of files as `write` writes them, each (path, upto, end, bytes, second)."""
    return {
        "files": [
            {"path": p, "mark": mark(size, second), "after": 0, "upto": u, "end": e}
            for p, u, e, size, second in files
        ]
    }


def mark(size, second):
    return f"{size}:{int(LONG_AGO.timestamp() + second) * 1000}"


def test_files_that_no_range_names_are_unread(tmp_path):
    spout = write(tmp_path / "in", a="1\n", b="22\n", _SUCCESS="x", c="")
    assert spout.backlog(after()) == Backlog({"files": 2, "bytes": 5}, LONG_AGO, {"named _SUCCESS": 1})


def test_of_a_file_that_is_begun_the_rows_are_known(tmp_path):
    spout = write(tmp_path / "in", a="1\n2\n3\n", b="22\n")
    found = spout.backlog(after(planned(("a", 1, 3, 6, 0))))
    assert found == Backlog({"files": 2, "rows": 2, "bytes": 3}, LONG_AGO)


def test_a_file_that_is_begun_and_gone_is_unread_of_no_known_age(tmp_path):
    spout = write(tmp_path / "in")
    found = spout.backlog(after(planned(("a", 1, 3, 6, 0))))
    assert found == Backlog({"files": 1, "rows": 2}, gone=Changed(1, ("a",)), is_empty=True)


def test_files_that_were_read_and_are_gone_are_told_whatever_spout_read_them(tmp_path):
    paths = [f"day={n % 7}/n{n}" for n in range(10_000)]
    history = after(planned(*((path, 1, 1, 2, 0) for path in paths)))
    for grows in (False, True):
        spout = FileSpout(write(tmp_path / "in").folder, grows=grows)
        found = spout.backlog(history)
        assert str(found.gone) == "10,000 files, such as day=0/n0, day=0/n1001, day=0/n1008"
        assert found.is_empty
    write(tmp_path / "in", _SUCCESS="")
    assert not spout.backlog(history).is_empty


def test_a_file_that_is_read_under_the_name_of_a_linked_folder_is_not_gone(tmp_path):
    write(tmp_path / "in")
    write(tmp_path / "in" / "b", x="1\n")
    (tmp_path / "in" / "a").symlink_to(tmp_path / "in" / "b")
    spout = FileSpout(str(tmp_path / "in"))
    assert spout.backlog(after(planned(("a/x", 1, 1, 2, 0)))).gone is None


def test_a_file_that_was_planned_once_is_neither_unread_nor_left_out(tmp_path):
    spout = write(tmp_path / "in", a="1\n", b_tmp="x\n")
    (tmp_path / "in" / "b_tmp").rename(tmp_path / "in" / "b.tmp")
    history = after(planned(("b.tmp", 1, 1, 2, 1)), planned(("a", 1, 1, 2, 0)))
    assert spout.backlog(history) == Backlog({})


def test_files_that_sort_before_the_start_are_left_out_but_for_those_that_were_planned(tmp_path):
    write(tmp_path / "in", a="1\n", b="1\n", c="1\n", d="1\n")
    spout = FileSpout(str(tmp_path / "in"), start="c")
    assert spout.backlog(after()).left_out == {"before c": 2}
    assert list(spout._unread(after(planned(("a", 1, 1, 2, 0))))) == ["c", "d"]
    assert spout.backlog(after(planned(("a", 1, 2, 2, 0)))).unread == {"files": 3, "rows": 1, "bytes": 4}
    assert spout.backlog(after(planned(("a", 1, 2, 2, 0)))).left_out == {"before c": 1}


@pytest.mark.parametrize(
    "change",
    [
        lambda file: file.write_text("1\n2\n"),
        lambda file: file.write_text("2\n"),
        lambda file: file.write_text(""),
        lambda file: os.utime(file, (5, 5)),
    ],
    ids=["appended", "overwritten", "emptied", "touched"],
)
def test_a_file_that_changed_or_vanished_since_it_was_read_is_told(tmp_path, change):
    spout = write(tmp_path / "in", a="1\n", b="1\n", c="1\n")
    read = after(planned(("a", 1, 1, 2, 0), ("b", 1, 1, 2, 1)), planned(("c", 1, 1, 2, 2)))
    assert spout.backlog(read) == Backlog({})
    change(tmp_path / "in" / "b")
    (tmp_path / "in" / "c").unlink()
    assert spout.backlog(read) == Backlog({}, changed=Changed(1, ("b",)), gone=Changed(1, ("c",)))
    assert FileSpout(spout.folder, ignore=("b",)).backlog(read).changed is None


def test_of_many_files_that_changed_the_number_and_the_first_names_are_told(tmp_path):
    spout = write(tmp_path / "in", **{f"n{n}": "1\n" for n in range(5)})
    found = spout.backlog(after(planned(*((f"n{n}", 1, 1, 99, n) for n in range(5))))).changed
    assert str(found) == "5 files, such as n0, n1, n2"


def test_the_start_is_a_path_with_its_folders(tmp_path):
    spout = write(tmp_path / "day=01", a="1\n") and write(tmp_path / "day=02", a="1\n", b="1\n")
    spout = FileSpout(str(tmp_path), start="day=02/b")
    assert list(spout._unread(after())) == ["day=02/b"]
    assert list(FileSpout(str(tmp_path), start="day=02")._unread(after())) == ["day=02/a", "day=02/b"]


def test_rows_that_were_there_before_the_start_version_are_left_out(tmp_path):
    path = str(tmp_path / "table")
    for ids in ([1, 2], [3], [4, 5, 6]):
        write_deltalake(path, pa.table({"id": ids}), mode="append")
    found = [DeltaSpout(path, key="id", start_version=n).backlog(after()) for n in range(5)]
    assert [(each.unread, each.left_out) for each in found] == [
        ({"rows": 6}, {}),
        ({"rows": 4}, {"before version 1": 2}),
        ({"rows": 3}, {"before version 2": 3}),
        ({}, {"before version 3": 6}),
        ({}, {"before version 4": 6}),
    ]


def test_a_table_spout_that_has_planned_goes_on_whatever_its_start_version(tmp_path):
    path = str(tmp_path / "table")
    for ids in ([1, 2], [3]):
        write_deltalake(path, pa.table({"id": ids}), mode="append")
    spout = DeltaSpout(path, key="id", start_version=1)
    from_the_beginning = {"after": None, "upto": 1, "end": 2, "version": 0}
    assert spout.backlog(after(from_the_beginning)).unread == {"rows": 2}
    assert spout.backlog(after(from_the_beginning)).left_out == {}
    from_the_start = {"after": 2, "upto": 3, "end": 3, "version": 1}
    assert spout.backlog(after(from_the_start)) == Backlog({}, left_out={"before version 1": 2})


def test_what_is_no_version_is_refused():
    with pytest.raises(SourceError, match="give a version of the table, from 0"):
        DeltaSpout("table", key="id", start_version=-1)


def test_a_start_of_which_the_table_tells_nothing_any_more_is_refused(tmp_path):
    commit(tmp_path / "ids" / "_delta_log", 5, add={})
    with pytest.raises(SourceError, match="what was there before version 5: version 4 cannot be read"):
        DeltaSpout(str(tmp_path / "ids"), start_version=5)._beginning()


def test_rows_of_a_table_above_the_key_that_was_planned_are_unread(tmp_path):
    path = str(tmp_path / "table")
    for ids in ([1, 2], [3, 4, 5]):
        write_deltalake(path, pa.table({"Id": ids}), mode="append")
    first, second = (each["timestamp"] / 1000 for each in reversed(DeltaTable(path).history()))
    spout = DeltaSpout(path, key="Id")
    assert spout.backlog(after()).unread == {"rows": 5}
    assert spout.backlog(after()).oldest.timestamp() == first
    begun = spout.backlog(after({"after": None, "upto": 1, "end": 2, "version": 0}))
    assert (begun.unread, begun.oldest.timestamp()) == ({"rows": 4}, first)
    newer = spout.backlog(after({"after": None, "upto": 2, "end": 2, "version": 0}))
    assert (newer.unread, newer.oldest.timestamp()) == ({"rows": 3}, second)
    assert spout.backlog(after({"after": 2, "upto": 5, "end": 5, "version": 1})) == Backlog({})


def test_commits_that_bring_no_rows_leave_nothing_unread_and_make_nothing_old(tmp_path):
    path = str(tmp_path / "table")
    for ids in ([1], [2]):
        write_deltalake(path, pa.table({"id": ids}), mode="append")
    DeltaTable(path).optimize.compact()
    spout, all_read = DeltaSpout(path, key="id"), {"after": None, "upto": 2, "end": 2, "version": 1}
    assert spout.backlog(after(all_read)) == Backlog({})
    assert oldest_commit(DeltaTable(path), 1) is None
    write_deltalake(path, pa.table({"id": [3]}), mode="append")
    newest = DeltaTable(path).history(1)[0]["timestamp"] / 1000
    assert spout.backlog(after(all_read)).oldest.timestamp() == newest


def commit(folder, version, info=None, **action):
    folder.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps(each) for each in ({"commitInfo": info or {"operation": "WRITE"}}, action)]
    (folder / f"{version:020}.json").write_text("\n".join(lines))


def test_the_highest_row_id_is_the_one_that_the_newest_commit_gave(tmp_path):
    for version, highest in ((0, 4), (1, None), (2, 9), (3, None)):
        given = {"domain": "delta.rowTracking", "configuration": json.dumps({"rowIdHighWaterMark": highest})}
        other = {"domain": "delta.clustering", "configuration": "{}"}
        commit(tmp_path / "_delta_log", version, domainMetadata=given if highest else other)
    path = str(tmp_path)
    found = [highest_row_id(path, *versions) for versions in ((-1, 3), (1, 3), (2, 3), (3, 3), (-1, 1))]
    assert found == [9, 9, None, None, 4]
    with pytest.raises(FileNotFoundError):
        highest_row_id(path, 3, 4)


@pytest.mark.parametrize(
    ("info", "highest"),
    [
        ({"operation": "DELETE"}, None),
        ({"operation": "UPDATE"}, None),
        ({"operation": "MERGE", "operationMetrics": {"numTargetRowsInserted": "0"}}, None),
        ({"operation": "MERGE", "operationMetrics": {"numTargetRowsInserted": "2"}}, 9),
        ({"operation": "MERGE"}, 9),
    ],
    ids=str,
)
def test_row_ids_that_are_drawn_for_rows_which_were_there_are_none_of_new_rows(tmp_path, info, highest):
    given = {"domain": "delta.rowTracking", "configuration": json.dumps({"rowIdHighWaterMark": 9})}
    commit(tmp_path / "_delta_log", 0, info, domainMetadata=given)
    assert highest_row_id(str(tmp_path), -1, 0) == highest


def test_a_table_that_is_missing_is_named(tmp_path):
    with pytest.raises(SourceError, match=r"There is no Delta table at .*/nowhere"):
        DeltaSpout(str(tmp_path / "nowhere"), key="id").backlog(after())


@pytest.mark.parametrize(
    ("unread", "text"),
    [({"files": 1, "bytes": 10_150}, "1 file, 10,150 bytes"), ({"rows": 2}, "2 rows"), ({}, "")],
)
def test_amounts_are_told_with_their_units(unread, text):
    assert amounts(unread) == text


class Silent:
    """A source that cannot be looked at."""

    def next_range(self, spark, history, limit):
        return None

    read_range = ends = read_positions = next_range


class Broken(Silent):
    """A source whose look at itself fails."""

    def backlog(self, history):
        raise ValueError("no route")


class Unsure(Silent):
    """A source that does not know."""

    def backlog(self, history):
        return None


@pytest.fixture
def run(tmp_path, monkeypatch):
    """A registered topology with a fold, whose folder of orders has a new file of long ago."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "shop", raising=False)
    made = shop(tmp_path)
    for name, value in made.environ.items():
        monkeypatch.setenv(name, value)
    write(tmp_path / "orders", **{"new b.json": "{}\n", "old.txt": "x"})
    fold(made.run)
    return made.run


def test_a_spout_that_finds_nothing_says_what_it_leaves_out(tmp_path):
    write(tmp_path / "in", monday="1\n", _SUCCESS="x")
    topology = Topology("silent")
    topology.spout("lines", FileSpout(str(tmp_path / "in"), glob="*.csv"))
    topology.spout("all", FileSpout(str(tmp_path / "in")))
    store = Store(str(tmp_path / "store"), "silent")
    store.create()
    journal = Journal(store, topology.roles)
    found = source_backlogs(topology, journal)
    assert never_read(found, journal) == [
        "Spout lines has found nothing to read so far: it leaves out 1 named _SUCCESS, 1 not named *.csv."
    ]
    assert left_out(found) == {
        "lines": {"named _SUCCESS": 1, "not named *.csv": 1},
        "all": {"named _SUCCESS": 1},
    }


def test_a_spout_that_cannot_tell_is_unknown_and_the_others_are_told(run):
    topology = Topology("several")
    sources = {"silent": Silent(), "broken": Broken(), "unsure": Unsure(), "away": FileSpout("nowhere")}
    for name, source in sources.items():
        topology.spout(name, source)
    *found, away = source_backlogs(topology, Journal(run.store))
    assert found == [
        SourceBacklog("silent", None, unknown="the spout has no method `backlog`"),
        SourceBacklog("broken", None, unknown="ValueError: no route"),
        SourceBacklog("unsure", None, unknown="the spout cannot tell"),
    ]
    assert away.unread is None and away.unknown.endswith("/nowhere cannot be read: it is not there.")


def test_status_tells_what_is_unread_and_left_out(run, capsys):
    found = status_report(run.topology, run.store, run.clock())
    assert found["sources"] == [
        {
            "spout": "orders",
            "unread": {"files": 1, "bytes": 3},
            "oldest": LONG_AGO,
            "left_out": {"not named *[/b].json": 1},
            "changed": None,
            "gone": {"count": 1, "such_as": (ODD,), "unit": "files", "says": f"1 file, such as {ODD}"},
            "is_empty": False,
            "unknown": None,
        }
    ]
    render.status(found)
    assert " ".join(capsys.readouterr().out.split()).endswith(
        "orders: 1 file, 3 bytes unread, the oldest of 2026-01-01 00:00:00; left out: 1 not named *[/b].json "
        f"orders: read, and no longer there: 1 file, such as {printable(ODD)}"
    )


def test_an_audit_tells_what_is_never_read(run, capsys):
    found = audit_report(run.topology, run.store)
    assert found.left_out == {"orders": {"not named *[/b].json": 1}}
    render.audit(found)
    gone = f"1 file, such as {printable(ODD)}"
    said = f"leaves out: 1 not named *[/b].json\norders: read, and no longer there: {gone}\nverdict: "
    assert f"orders {said}" in capsys.readouterr().out
    assert (list(found.gone), found.verdict) == (["orders"], "pass")


def test_status_audit_and_monitor_tell_which_files_changed_and_the_audit_passes(
    run, tmp_path, capsys, monkeypatch
):
    write(tmp_path / "orders", **{"b.json": "{}\n{}\n"})
    read = SourceRange(planned(("b.json", 1, 1, 3, 0)))
    Journal(run.store).append(Batch("orders", 2, "next", read, ("items",), run.clock(), "run"))
    said = "changed since it was read: 1 file, such as b.json"
    render.status(status_report(run.topology, run.store, run.clock()))
    assert f"orders: {said}" in capsys.readouterr().out
    found = audit_report(run.topology, run.store)
    render.audit(found)
    assert (found.changed, found.verdict) == ({"orders": "1 file, such as b.json"}, "pass")
    assert f"orders: {said}\norders: read, and no longer there: 1 file" in capsys.readouterr().out
    assert warnings(monkeypatch) == [
        "orders has what changed since it was read, and is not read again: 1 file, such as b.json. See "
        "docs/how-to/alerts.md#changed-sources."
    ]


def test_the_monitor_tells_of_an_empty_folder_of_which_files_were_read(run, tmp_path, monkeypatch):
    for file in (tmp_path / "orders").iterdir():
        file.unlink()
    told = [each for each in warnings(monkeypatch) if "empty" in each]
    assert told == [
        f"The source of orders is empty, and was read: 1 file, such as {ODD}. See "
        "docs/how-to/alerts.md#empty-sources."
    ]
    write(tmp_path / "orders", _SUCCESS="")
    assert [each for each in warnings(monkeypatch) if "empty" in each] == []


def warnings(monkeypatch):
    """What the monitor says where nothing is late."""
    for limit in (
        "ACKER_LATE_MINUTES",
        "BATCH_LATE_MINUTES",
        "MESSAGE_LATE_MINUTES",
        "UPKEEP_LATE_MINUTES",
        "DEAD_LETTERS_ALLOWED",
    ):
        monkeypatch.setenv(f"PIPELINE_{limit}", "99999999")
    monkeypatch.setenv("PIPELINE_DISK_FREE_PERCENT", "0")
    return warnings_of("shop")


def warnings_of(topology):
    return [str(each) for each in tasks.findings(topology)]


def test_an_audit_tells_of_a_source_that_it_cannot_look_at(run, tmp_path, capsys):
    (tmp_path / "orders").rename(tmp_path / "away")
    found = audit_report(run.topology, run.store)
    render.audit(found)
    said = " ".join(capsys.readouterr().out.split())
    assert said.endswith("orders cannot be read: it is not there. verdict: pass")


def test_what_is_unread_for_long_is_a_complaint_where_an_age_is_set(run, monkeypatch):
    for each in ("ACKER", "BATCH", "MESSAGE", "UPKEEP"):
        monkeypatch.setenv(f"PIPELINE_{each}_LATE_MINUTES", "99999999")
    monkeypatch.setenv("PIPELINE_DISK_FREE_PERCENT", "0")
    monkeypatch.setenv("PIPELINE_DEAD_LETTERS_ALLOWED", "1")
    assert warnings_of("shop") == []
    monkeypatch.setenv("PIPELINE_SOURCE_LATE_MINUTES", "90")
    assert warnings_of("shop") == [
        "orders has 1 file, 3 bytes unread, the oldest of 2026-01-01 00:00 UTC, longer than the 90 minutes "
        "of PIPELINE_SOURCE_LATE_MINUTES: look at the DAG shop.run. See docs/how-to/alerts.md#late-sources."
    ]

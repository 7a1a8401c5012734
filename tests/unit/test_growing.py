"""Files that grow: what a plan takes of them, and where they are after a rotation. Without Spark."""

import os

import pytest

from acker.core.errors import SourceError
from acker.spouts import Backlog, Changed, FileSpout, History
from acker.spouts.files import growing as growing_module


@pytest.fixture
def log(tmp_path):
    return tmp_path / "in" / "app.log"


@pytest.fixture
def spout(log):
    log.parent.mkdir()
    return FileSpout(str(log.parent), grows=True)


def after(*planned):
    return History(planned[-1] if planned else None, lambda: list(planned))


def append(file, text):
    with file.open("a") as opened:
        opened.write(text)


def plan(spout, history, limit=100):
    """The next range, added to the history: (name, path, after, upto, end) of each file."""
    planned = spout.next_range(None, after(*history), limit)
    if planned is None:
        return None
    history.append(planned)
    return [tuple(file[key] for key in ("path", "at", "after", "upto", "end")) for file in planned["files"]]


def test_what_is_appended_is_planned_once_and_a_line_without_its_end_waits(spout, log):
    history = []
    append(log, "1\n2\n3")
    assert spout.backlog(after()).unread == {"files": 1, "bytes": 4}
    assert plan(spout, history) == [("app.log", "app.log", 0, 2, 2)]
    assert (spout.backlog(after(*history)), plan(spout, history)) == (Backlog({}), None)
    append(log, "3\n4")
    assert spout.backlog(after(*history)).unread == {"files": 1, "bytes": 3}
    assert plan(spout, history) == [("app.log", "app.log", 2, 3, 3)]
    assert plan(spout, history) is None


def test_a_first_line_without_its_end_is_nothing_to_read(spout, log):
    append(log, "1")
    assert (spout.backlog(after()), plan(spout, [])) == (Backlog({}), None)


def test_a_limit_ends_within_a_file_and_files_take_turns(spout, log):
    history = []
    other = log.with_name("b.log")
    append(log, "1\n2\n3\n")
    append(other, "1\n")
    assert plan(spout, history, 2) == [("app.log", "app.log", 0, 2, 3)]
    append(log, "4\n5\n")
    found = [plan(spout, history, 2) for _ in range(3)]
    assert found == [
        [("app.log", "app.log", 2, 3, 3), ("b.log", "b.log", 0, 1, 1)],
        [("app.log", "app.log", 3, 5, 5)],
        None,
    ]
    append(log, "6\n7\n8\n")
    append(other, "2\n")
    assert plan(spout, history, 2) == [("b.log", "b.log", 1, 2, 2), ("app.log", "app.log", 5, 6, 8)]


def test_lines_longer_than_a_read_and_a_prefix_longer_than_a_block_are_counted(spout, log, monkeypatch):
    monkeypatch.setattr(growing_module, "_READ", 3)
    monkeypatch.setattr(growing_module, "_BLOCK", 2)
    history = []
    append(log, "one\ntwo and three\n4")
    assert plan(spout, history) == [("app.log", "app.log", 0, 2, 2)]
    append(log, "\n")
    assert plan(spout, history) == [("app.log", "app.log", 2, 3, 3)]
    assert history[-1]["files"][0]["crc"] == growing_module.zlib.crc32(b"one\ntwo and three\n4\n")


@pytest.mark.parametrize(
    "change",
    [
        lambda log: log.write_text("9\n2\n3\n"),
        lambda log: log.write_text("1\n9\n3\n"),
        lambda log: log.write_text("1\n"),
        lambda log: log.write_text(""),
        lambda log: (log.unlink(), log.write_text("a new one\n" * 9)),
    ],
    ids=["rewritten at its head", "rewritten at its end", "truncated", "emptied", "another"],
)
def test_a_file_that_does_not_hold_what_was_read_is_told_and_never_read(spout, log, change):
    history = []
    append(log, "1\n2\n")
    plan(spout, history)
    change(log)
    os.utime(log, (5, 5))
    assert spout.backlog(after(*history)) == Backlog({}, changed=Changed(1, ("app.log",)))
    assert plan(spout, history) is None


def test_a_file_that_vanished_after_it_was_read_is_told_as_gone(spout, log):
    history = []
    append(log, "1\n")
    plan(spout, history)
    log.unlink()
    gone = Backlog({}, gone=Changed(1, ("app.log",)), is_empty=True)
    assert (spout.backlog(after(*history)), plan(spout, history)) == (gone, None)


def test_a_renamed_file_that_vanished_is_told_as_gone_although_a_new_one_has_its_place(spout, log):
    history = []
    append(log, "1\n")
    plan(spout, history)
    log.rename(log.with_name("app.log.1"))
    append(log, "2\n")
    assert plan(spout, history) == [("app.log~2", "app.log", 0, 1, 1)]
    log.with_name("app.log.1").unlink()
    assert spout.backlog(after(*history)) == Backlog({}, gone=Changed(1, ("app.log",)))
    log.unlink()
    both = Changed(2, ("app.log", "app.log~2"))
    assert spout.backlog(after(*history)) == Backlog({}, gone=both, is_empty=True)


def test_rotated_files_keep_their_names_in_the_plans_and_no_line_is_read_twice(spout, log):
    history = []
    append(log, "1\n2\n")
    assert plan(spout, history, 1) == [("app.log", "app.log", 0, 1, 2)]
    append(log, "3\n")
    log.rename(log.with_name("app.log.1"))
    append(log, "4\n")
    assert plan(spout, history) == [("app.log", "app.log.1", 1, 2, 2), ("app.log~2", "app.log", 0, 1, 1)]
    assert plan(spout, history) == [("app.log", "app.log.1", 2, 3, 3)]
    log.with_name("app.log.1").rename(log.with_name("app.log.2"))
    append(log, "5\n")
    log.rename(log.with_name("app.log.1"))
    append(log, "6\n")
    assert plan(spout, history) == [
        ("app.log~3", "app.log", 0, 1, 1),
        ("app.log~2", "app.log.1", 1, 2, 2),
    ]
    assert (spout.backlog(after(*history)), plan(spout, history)) == (Backlog({}), None)


def test_a_rotated_file_is_known_also_where_the_glob_does_not_take_its_new_name(log):
    log.parent.mkdir()
    spout, history = FileSpout(str(log.parent), glob="*.log", grows=True), []
    append(log, "1\n")
    plan(spout, history)
    append(log, "2\n")
    log.rename(log.with_name("app.log.1"))
    append(log, "3\n")
    assert plan(spout, history) == [("app.log~2", "app.log", 0, 1, 1), ("app.log", "app.log.1", 1, 2, 2)]


def test_a_packed_file_is_left_out_and_parquet_is_refused(spout, log):
    append(log.with_name("app.log.1.gz"), "x\n")
    why = "packed or no text, so they cannot grow (app.log.1.gz)"
    assert spout.backlog(after()) == Backlog({}, left_out={why: 1})
    assert plan(spout, []) is None
    with pytest.raises(SourceError, match="Files of Parquet cannot grow"):
        FileSpout("folder", format="parquet", grows=True)


def test_a_file_that_was_planned_before_the_spout_was_told_that_they_grow_stays_as_it_is(spout, log):
    append(log, "1\n2\n")
    old = {"files": [{"path": "app.log", "mark": "2:1", "after": 0, "upto": 1, "end": 1}]}
    assert plan(spout, [old]) is None
    assert spout.backlog(after(old)).changed == Changed(1, ("app.log",))


def test_what_a_file_has_that_became_too_large_is_left_out_and_told(spout, log, monkeypatch):
    monkeypatch.setattr("acker.spouts.files.grown.LARGEST_TEXT_BYTES", 5)
    history = []
    append(log, "1\n2\n")
    append(log.with_name("large"), "1\n2\n3\n")
    assert plan(spout, history) == [("app.log", "app.log", 0, 2, 2)]
    append(log, "3\n")
    why = "larger than 1 GiB, whose newest lines are not read (app.log, large)"
    assert (spout.backlog(after(*history)), plan(spout, history)) == (Backlog({}, left_out={why: 2}), None)

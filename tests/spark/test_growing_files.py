"""Files that grow, read by Spark: every line once, whatever comes between."""

import pyarrow as pa
import pytest

from acker.operations.cycle import drain, run_cycle
from acker.operations.replay import replay_by_hand
from acker.operations.selection.selection import Selection
from acker.reports.audit import audit_report
from acker.spouts import FileSpout, History
from acker.topology.topology import Topology
from tests.kit.places import states
from tests.kit.stops import Stop, stopped_once_at_each_step, stopping_at

FORMATS = {
    "text": (FileSpout, {}, "", "{}\n", "value", str),
    "json": (FileSpout, {"schema": "id bigint"}, "", '{{"id": {}}}\n', "id", int),
    "csv": (FileSpout, {"schema": "id bigint"}, "id\n", "{}\n", "id", int),
}


def after(*planned):
    return History(planned[-1] if planned else None, lambda: list(planned))


def append(folder, text, name="app.log"):
    with (folder / name).open("a") as opened:
        opened.write(text)


def found(frame, *columns):
    rows = frame.select("_source_partition", "_source_offset", *columns).toArrow().to_pylist()
    return sorted(tuple(row.values()) for row in rows)


def positions(*wanted):
    names, offsets = zip(*wanted, strict=True)
    return pa.table({"source_partition": pa.array(names), "source_offset": pa.array(offsets)})


@pytest.mark.parametrize("form", FORMATS)
def test_a_growing_file_is_read_in_parts_and_replayed_of_each(place, spark, form):
    _, options, header, line, column, kind = FORMATS[form]
    root = place.folder / "logs"
    root.mkdir()
    spout, history = FileSpout(str(root), format=form, grows=True, **options), []
    for text in (header + line.format(1) + line.format(2), line.format(3) + line.format(4)[:-1], "\n"):
        append(root, text)
        history.append(spout.next_range(spark, after(*history), 9))
    shift = 1 if header else 0
    parts = [found(spout.read_range(spark, planned), column) for planned in history]
    rows = [("app.log", n + shift, kind(n)) for n in range(1, 5)]
    assert parts == [rows[:2], rows[2:3], rows[3:]]
    wanted = positions(*(row[:2] for row in (rows[0], rows[3])))
    append(root, line.format(5))
    assert found(spout.read_positions(spark, wanted, after(*history)), column) == [rows[0], rows[3]]


@pytest.mark.extended
def test_a_quoted_field_that_is_open_at_the_end_of_a_part_fails_its_lines_in_the_next_one(place, spark):
    root = place.folder / "logs"
    root.mkdir()
    spout = FileSpout(str(root), format="csv", schema="id bigint, name string", header=False, grows=True)
    history = []
    for text in ('1,a\n2,"b\n', '3,c"\n4,d\n'):
        append(root, text)
        history.append(spout.next_range(spark, after(*history), 9))
    kinds = [found(spout.read_range(spark, planned), "_kind", "name") for planned in history]
    assert kinds[0][0] == ("app.log", 1, None, "a")
    assert [row[:3] for row in kinds[0][1:] + kinds[1][:1]] == [
        ("app.log", 2, "reject"),
        ("app.log", 3, "reject"),
    ]
    assert kinds[1][1:] == [("app.log", 4, None, "d")]


@pytest.mark.extended
def test_a_planned_part_of_a_file_that_was_rewritten_is_lost_and_so_is_its_replay(place, spark):
    root = place.folder / "logs"
    root.mkdir()
    append(root, "1\n2\n3\n")
    append(root, "1\n", "b.log")
    spout = FileSpout(str(root), grows=True)
    planned = spout.next_range(spark, after(), 9)
    (root / "app.log").write_text("1\n9\n3\n4\n")
    lost = [("app.log", n, "lost", "file changed or vanished: app.log") for n in (1, 2, 3)]
    rows = spout.read_range(spark, planned)
    assert found(rows.where("_kind IS NOT NULL"), "_kind", "_error") == lost
    assert found(rows.where("_kind IS NULL"), "value") == [("b.log", 1, "1")]
    wanted = positions(("app.log", 2), ("b.log", 1))
    again = spout.read_positions(spark, wanted, after(planned))
    assert found(again.where("_kind IS NOT NULL"), "_kind", "_error") == lost[1:2]
    assert spout.read_locally(wanted, after(planned)) is None
    assert spout.read_locally(positions(("b.log", 1)), after(planned))["value"].to_pylist() == ["1"]


def test_a_file_that_was_renamed_is_read_on_and_replayed_under_its_first_name(place, spark):
    root = place.folder / "logs"
    root.mkdir()
    append(root, "1\n2\n")
    spout = FileSpout(str(root), grows=True)
    history = [spout.next_range(spark, after(), 1)]
    (root / "app.log").rename(root / "app.log.1")
    append(root, "3\n")
    history.append(spout.next_range(spark, after(*history), 9))
    parts = [found(spout.read_range(spark, planned), "value") for planned in history]
    assert parts == [[("app.log", 1, "1")], [("app.log", 2, "2"), ("app.log~2", 1, "3")]]
    wanted = positions(("app.log", 2), ("app.log~2", 1))
    assert found(spout.read_positions(spark, wanted, after(*history)), "value") == parts[1]
    assert spout.read_locally(wanted, after(*history))["value"].to_pylist() == ["2", "3"]


def growing(place, root, **limits):
    topology = Topology("logs", **limits)
    lines = topology.spout("lines", FileSpout(str(root), grows=True))
    kept = topology.bolt(lines, name="kept")(lambda tuples: tuples)
    topology.publish(kept, to=place.path("published"))
    return topology


def test_every_line_is_published_once_although_each_step_is_killed_and_the_file_grows(place, spark):
    root = place.folder / "logs"
    root.mkdir()
    topology = growing(place, root, batch_rows=2)
    append(root, "1\n2\n3\n4")
    with pytest.raises(Stop):
        run_cycle(place.run(topology, on_step=stopping_at("planned", "lines")))
    append(root, "4\n5\n")
    (root / "app.log").rename(root / "app.log.1")
    append(root, "6\n")
    run = place.run(topology)
    stopped_once_at_each_step(run)
    append(root, "7\n")
    drain(run)
    replayed = replay_by_hand(run, Selection(states=("acked",)), "again", "me").replayed
    drain(run)
    assert (replayed, place.rows("published")) == (7, [(n,) for n in ("1", "2", "3", "44", "5", "6", "7")])
    audit = audit_report(run.topology, run.store)
    assert (audit.acked, audit.verdict, audit.changed) == (7, "pass", {})


@pytest.mark.extended
def test_a_replay_of_a_file_that_was_truncated_is_lost_for_one_cause_and_changed_is_told(place, spark):
    root = place.folder / "logs"
    root.mkdir()
    append(root, "1\n2\n3\n")
    run = place.run(growing(place, root))
    drain(run)
    (root / "app.log").write_text("9\n")
    replay_by_hand(run, Selection(states=("acked",)), "again", "me")
    drain(run)
    assert [state for state in states(run) if state[1] == 2] == [(n, 2, "lost") for n in (1, 2, 3)]
    audit = audit_report(run.topology, run.store)
    assert audit.changed == {"lines": "1 file, such as app.log"}
    assert {finding.why for finding in audit.findings["lost"]} == {
        "attempt 2: file changed or vanished: app.log"
    }

"""Committed positions: how far each partition is emitted and settled, whatever is in flight or gone."""

from dataclasses import replace
from datetime import timedelta

import pytest
from deltalake import DeltaTable
from pyspark.sql import functions as F

from acker.batches.batch import finish
from acker.cli import rendering as render
from acker.components.anchors import fail_when
from acker.core.events import State
from acker.core.retry import ExponentialBackoff
from acker.operations.cycle import drain, room_for_new, run_bolt, run_cycle, run_spout
from acker.operations.fold import fold
from acker.operations.replay import plan_by_hand
from acker.operations.selection import Selection
from acker.operations.trim import trim_events, trim_streams
from acker.reports.status import status_report
from acker.spouts import DeltaSpout, FileSpout
from acker.topology.topology import Topology

# Cases of Storm's OffsetManager: what is emitted, what of it is not acked at first, and up to where is
# committed then and once all is acked.
STORM = {
    "gap_in_middle_of_acked": ([0, 1, 2, 5, 6], [5], 3, 7),
    "gap_before_acked": ([5, 6], [5], None, 7),
    "no_acks": ([], [], None, None),
    "one_ack": ([0], [], 1, 1),
    "multiple_acks": ([0, 1], [], 2, 2),
    "acked_offset_gap": ([0, 1, 2], [1], 1, 3),
    "acked_but_not_emitted_offset_gap": ([0, 2], [], 3, 3),
    "unacked_offset_gap": ([0, 1], [1], 1, 2),
}


def room(run, spout):
    return room_for_new(run.topology, run.snapshot(), spout)


def upto(run):
    """(spout, partition, emitted_upto, committed_upto, behind) of each partition, as `status` says."""
    found = status_report(run.topology, run.store, run.clock())["positions"]
    return [tuple(position.values()) for position in found]


def json_lines(case, emitted):
    """A file whose line n + 1 is the message n of a case; where there is no such message it is blank."""
    lines = (f'{{"message": "{case}:{n}"}}' if n in emitted else "" for n in range(7))
    return "\n".join(lines).rstrip("\n")


@pytest.fixture(scope="module")
def offsets(shared_place):
    """Per case (emitted_upto, committed_upto, behind): while messages are held back, and afterwards."""
    root = shared_place.folder / "offsets"
    root.mkdir()
    for case, (emitted, *_) in STORM.items():
        (root / case).write_text(json_lines(case, emitted))
    held = {f"{case}:{offset}" for case, (_, live, *_) in STORM.items() for offset in live}
    topology = Topology("offsets", retry=ExponentialBackoff(initial_seconds=60))
    lines = topology.spout("lines", FileSpout(str(root), format="json", schema="message string"))

    @topology.bolt(lines)
    def checked(tuples):
        return tuples.select("anchor", fail_when(F.col("message").isin(list(held)), "held back"))

    run = shared_place.run(topology)
    run_cycle(run)
    before = {partition: ends for _, partition, *ends in upto(run)}
    held.clear()
    shared_place.clock.advance(60)
    run_cycle(run)
    return before, {partition: ends for _, partition, *ends in upto(run)}


@pytest.mark.parametrize("case", [case for case, (emitted, *_) in STORM.items() if emitted])
def test_a_partition_commits_as_in_storms_offset_manager(offsets, case):
    emitted, live, first, last = STORM[case]
    end = emitted[-1] + 2  # the first line is 1
    held = [end, None if first is None else first + 1, end - live[0] - 1 if live else 0]
    assert (offsets[0][case], offsets[1][case]) == (held, [end, last + 1, 0])


def test_a_partition_without_messages_has_no_position(offsets):
    assert [sorted(found) for found in offsets] == [sorted(set(STORM) - {"no_acks"})] * 2


@pytest.fixture
def run(place):
    """Of the numbers 1, 2 and 3 the bolt fails those that are in the list `bad`; each is tried twice."""
    topology = Topology("steps", retry=ExponentialBackoff(initial_seconds=60, limit=1))
    numbers = topology.spout("numbers", DeltaSpout(place.add("numbers", id=[1, 2, 3]), key="id"))
    topology.bolt(numbers, name="checked")(
        lambda tuples: tuples.select("anchor", "id", fail_when(F.col("id").isin(place.bad), "bad"))
    )
    place.bad = []
    return place.run(topology)


def test_messages_are_committed_when_a_fold_has_settled_them_and_not_before(place, run):
    numbers, checked = run.topology.spouts[0], run.topology.bolts[0]
    found = [upto(run)]
    for step in (lambda: run_spout(run, numbers), lambda: fold(run), lambda: run_bolt(run, checked)):
        step()
        found.append(upto(run))
    fold(run)
    place.add("numbers", id=[7])
    run_spout(run, numbers)
    in_flight = [("numbers", "0", 4, None, 3)]
    assert (found, upto(run)) == ([[], in_flight, in_flight, in_flight], [("numbers", "0", 8, 4, 1)])


def test_a_batch_that_is_not_logged_is_not_emitted(run):
    def end(step):
        if step.name == "written":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_spout(replace(run, on_step=end), run.topology.spouts[0])
    assert upto(run) == []


@pytest.mark.extended
def test_dead_letters_and_lost_messages_are_settled(place, run):
    place.bad[:] = [2, 3]
    run_cycle(run)
    assert upto(run) == [("numbers", "0", 4, 2, 2)]
    DeltaTable(place.path("numbers")).delete("id = 2")
    place.clock.advance(60)
    run_cycle(run)
    assert status_report(run.topology, run.store, run.clock())["states"] == {
        "acked": 1,
        "failed": 3,
        "lost": 1,
        "dead_letter": 1,
    }
    assert upto(run) == [("numbers", "0", 4, 4, 0)]


@pytest.mark.extended
def test_a_replay_by_hand_takes_the_commit_back_until_it_is_settled(run):
    run_cycle(run)
    chosen = Selection(states=(State.ACKED,), positions=(("0", 2),))
    _, (batch,) = plan_by_hand(run, chosen, "why", "somebody")
    finish(run, batch)
    assert upto(run) == [("numbers", "0", 4, 2, 2)]
    run_cycle(run)
    assert upto(run) == [("numbers", "0", 4, 4, 0)]


@pytest.mark.extended
def test_trimmed_streams_and_events_leave_positions_as_they_are(place, run):
    run_cycle(run)
    place.clock.advance(60)
    gone = trim_streams(run, timedelta(0)) | trim_events(run, timedelta(0))
    assert gone == {"numbers": 1, "checked": 1, "events": 8}
    assert upto(run) == [("numbers", "0", 4, 4, 0)]


@pytest.fixture
def files(place):
    """Five files, one of them empty, of which one batch takes eight lines; words with an x fail."""
    root = place.folder / "files"
    root.mkdir()
    for name, text in {"a": "1\n2\n", "b": "", "c": "1\nx\n3\n", "d": "x\n2\n", "e": "1\n2\n3\n"}.items():
        (root / name).write_text(text)
    topology = Topology("files", batch_rows=8)
    lines = topology.spout("lines", FileSpout(str(root)))
    topology.bolt(lines, name="checked")(
        lambda tuples: tuples.select("anchor", fail_when(F.col("value") == "x", "an x"))
    )
    run = place.run(topology)
    run_cycle(run)
    return run


def test_every_file_has_positions_of_its_own(files):
    assert upto(files) == [
        ("lines", "a", 3, 3, 0),
        ("lines", "c", 4, 2, 2),
        ("lines", "d", 3, None, 2),
        ("lines", "e", 2, 2, 0),
    ]


@pytest.mark.extended
def test_a_file_that_is_read_on_moves_its_end(files):
    drain(files, sleep=lambda seconds: files.clock.advance(seconds))
    ends = [
        ("lines", "a", 3, 3, 0),
        ("lines", "c", 4, 4, 0),
        ("lines", "d", 3, 3, 0),
        ("lines", "e", 4, 4, 0),
    ]
    assert upto(files) == ends


def test_status_sums_up_many_partitions_and_names_those_that_are_furthest_behind(files, capsys):
    render.status(status_report(files.topology, files.store, files.clock()))
    last = " ".join(capsys.readouterr().out.split()).partition("lines: ")[2]
    assert last == "4 partitions, 2 of them behind; furthest: c (2 of 4), d (none of 3)"


def test_status_tells_people_how_far_a_spout_with_one_partition_is(run, capsys):
    run_cycle(run)
    render.status(status_report(run.topology, run.store, run.clock()))
    assert capsys.readouterr().out.endswith("numbers: emitted up to 4, committed up to 4\n")


def test_messages_that_are_not_tracked_are_committed_at_once_and_take_no_room(place):
    topology = Topology("forgotten", max_pending=2)
    source = DeltaSpout(place.add("numbers", id=[1, 2, 3]), key="id")
    numbers = topology.spout("numbers", source, reliable="id <> 2")
    topology.bolt(numbers, name="same")(lambda tuples: tuples)
    loose = topology.spout("loose", source, reliable=False)
    run = place.run(topology)
    assert (run_spout(run, loose), room(run, "loose")) == ((1, 2), 2)
    assert (run_spout(run, numbers), room(run, "numbers")) == ((1, 2), 1)
    assert upto(run) == [("numbers", "0", 3, None, 2), ("loose", "0", 3, 3, 0)]

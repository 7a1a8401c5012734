"""Committed positions of a folder's files: each file has its own."""

from datetime import timedelta

import pytest
from pyspark.sql import functions as F

from acker.cli import rendering as render
from acker.components.anchors import fail_when
from acker.operations.cycle import drain, run_cycle
from acker.operations.maintenance.trim import trim_events, trim_streams
from acker.reports.status import status_report
from acker.spouts import FileSpout
from acker.topology.topology import Topology
from tests.kit.places import upto

ENDS = [("lines", "a", 3, 3, 0), ("lines", "c", 4, 4, 0), ("lines", "d", 3, 3, 0), ("lines", "e", 4, 4, 0)]


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
    drain(files, sleep=files.clock.advance)
    assert upto(files) == ENDS


def test_status_sums_up_many_partitions_and_names_those_that_are_furthest_behind(files, capsys):
    render.status(status_report(files.topology, files.store, files.clock()))
    *_, offsets, backlog = capsys.readouterr().out.splitlines()
    assert offsets == "lines: 4 partitions, 2 of them behind; furthest: c (2 of 4), d (none of 3)"
    assert backlog.startswith("lines: 1 file, 2 rows unread, the oldest of ")


@pytest.mark.extended
def test_trimmed_streams_and_events_leave_positions_as_they_are(files):
    drain(files, sleep=files.clock.advance)
    files.clock.advance(60)
    gone = trim_streams(files, timedelta(0)) | trim_events(files, timedelta(0))
    assert (gone, upto(files)) == ({"lines": 5, "checked": 5, "events": 42}, ENDS)

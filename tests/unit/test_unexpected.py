"""An error that nobody foresaw: one sentence, and its trace in a file, wherever one can be written."""

import os
import sys
import tempfile

import pytest
from click.testing import CliRunner

from acker.cli.commands import main

OWN = """
from acker import FileSpout, Topology


class Own(FileSpout):
    def __repr__(self):
        raise {error}


topology = Topology("own")
topology.spout("lines", Own("lines"))
"""


@pytest.fixture
def said(tmp_path, monkeypatch):
    """What `acker describe` says of a topology whose spout raises."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PIPELINE_HOME", "home")

    def say(error, *options):
        (tmp_path / "own.py").write_text(OWN.format(error=error))
        told = CliRunner().invoke(main, ["describe", "own:topology", *options])
        sys.modules.pop("own")
        assert told.exit_code == 2 and isinstance(told.exception, SystemExit)
        return told.output

    return say


def test_an_error_that_nobody_foresaw_is_one_line_and_its_trace_lies_in_the_home(said, tmp_path):
    (tmp_path / "home").mkdir()
    told = said("KeyError('price\\nof tea')")
    (trace,) = (tmp_path / "home" / "errors").iterdir()
    assert told == (
        f"Error: An error that nobody foresaw, KeyError: 'price\\nof tea' ({tmp_path}/own.py, line 7). "
        f"Its trace is in {trace}: see there whose code raised it.\n"
    )
    assert "Traceback (most recent call last)" in trace.read_text()
    assert trace.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("is_there", [False, True], ids=["no home", "a home that takes nothing"])
def test_where_the_home_takes_no_trace_it_lies_among_temporary_files(said, tmp_path, monkeypatch, is_there):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    if is_there:
        (tmp_path / "home").mkdir()
        (tmp_path / "home" / "errors").write_text("a file in the place of the folder")
    told = said("ValueError")
    (trace,) = (tmp_path / "tmp").iterdir()
    assert f"Its trace is in {trace}: " in told
    assert (tmp_path / "home").exists() == is_there


def test_where_no_folder_takes_the_trace_that_is_said(said, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    assert said("MemoryError") == (
        f"Error: An error that nobody foresaw, MemoryError ({tmp_path}/own.py, line 7). No folder takes its "
        "trace: set TMPDIR to a folder of yours, and run the command again.\n"
    )


def test_a_home_keeps_the_newest_traces(said, tmp_path):
    errors = tmp_path / "home" / "errors"
    errors.mkdir(parents=True)
    for number in range(30):
        (errors / f"20200101T0000{number:02}.txt").touch()
    said("ValueError")
    assert len(os.listdir(errors)) == 20
    assert min(os.listdir(errors)) == "20200101T000011.txt"


@pytest.mark.parametrize("error", ["ValueError", "type('Panic', (BaseException,), {})", "OSError(5, 'x')"])
def test_whatever_is_raised_no_trace_is_printed(said, error):
    assert len(said(error).splitlines()) == 1

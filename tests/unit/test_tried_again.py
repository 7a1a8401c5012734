"""A command that another commit comes before is tried again, as a task is."""

import click
import pytest
from click.testing import CliRunner
from pyspark.errors import PySparkException

from acker.cli.context import command
from acker.core.errors import InTheWay, StoreError

TOPOLOGY = """
from acker import DeltaSpout, Topology

topology = Topology("sales")
topology.spout("numbers", DeltaSpout("/srv/numbers", key="id"))
"""


class OfDelta(PySparkException):
    def getSqlState(self):
        return "2D521"


@pytest.fixture
def call(tmp_path, monkeypatch):
    """A command that raises these errors one after the other: how it ends, and how often it was called."""
    (tmp_path / "sold.py").write_text(TOPOLOGY)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PIPELINE_HOME", str(tmp_path))

    def call(*errors):
        left, ids = [*errors], []

        @command
        def flaky(context):
            ids.append(context.call_id)
            if left:
                raise left.pop(0)
            click.echo("done")

        return CliRunner().invoke(flaky, ["sold:topology"]), ids

    return call


@pytest.mark.parametrize("error", [InTheWay("It was compacted.\nAt 10:00."), OfDelta("It was compacted.")])
def test_a_command_is_called_again_as_the_same_call(call, error):
    done, ids = call(error, error)
    again = "Another commit was in the way. Trying again … (It was compacted.)"
    assert (done.exit_code, done.output.splitlines()) == (0, [again, again, "done"])
    assert ids == ids[:1] * 3


def test_after_three_times_it_is_an_error(call):
    error = InTheWay("It was compacted.")
    done, ids = call(error, error, error, error)
    assert (done.exception, len(ids)) == (error, 3)


@pytest.mark.parametrize("error", [StoreError("It is damaged."), PySparkException("no"), ValueError("no")])
def test_no_other_error_is_tried_again(call, error):
    done, ids = call(error)
    assert (done.exception, len(ids)) == (error, 1)

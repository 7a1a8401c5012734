"""A project that `acker init` has made: its tests pass, and its topology runs."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.extended

ACKER = (sys.executable, "-m", "acker")


def test_a_new_project_works_as_it_is(environment, tmp_path):
    ours = environment | {"PIPELINE_TEST_REMOTE": environment["SPARK_REMOTE"]}

    def told(*command: str, folder: Path = tmp_path / "bakery") -> str:
        done = subprocess.run(command, cwd=folder, env=ours, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    told(*ACKER, "init", "bakery", folder=tmp_path)
    assert "3 passed" in told(sys.executable, "-m", "pytest")
    assert told(*ACKER, "run", "bakery") == (
        "1 failed in priced, tried again: KeyError: 'wine' (such as orders:monday.json:2)\n"
        "messages 3, replayed 0, batches 3, commits 1\n"
    )
    assert "verdict: pass" in told(*ACKER, "audit", "bakery")

"""A spout and a target of a user's own, outside of the repository, by the commands that people use."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from deltalake import DeltaTable

from tests.kit.shell import NO_SPARK, Shell

TOPOLOGY = "station:topology"
TRIM = f"from acker.airflow import tasks; print(tasks.trim(tasks.open_run({TOPOLOGY!r})))"


def station(folder, remote):
    """A folder with the topology, and a shell there."""
    folder.mkdir(exist_ok=True)
    shutil.copy(Path(__file__).with_name("station.py"), folder)
    (folder / "stations").mkdir()
    (folder / "stations" / "north.txt").write_text("10\n-300\n20\n")
    (folder / "stations" / "south.txt").write_text("30\n")
    return Shell(folder, remote)


def shown(shell):
    answer = shell("show", TOPOLOGY, "fahrenheit", "--json", **NO_SPARK).json()
    return sorted(row[answer["columns"].index("degrees")] for row in answer["rows"])


def audited(shell, *options):
    answer = shell("audit", TOPOLOGY, "--json", *options, **NO_SPARK)
    told = answer.json()
    counts = [told[name] for name in ("emitted", "acked", "dead_letter", "lost", "unexpected", "duplicated")]
    return answer.code, counts, told["streams"]["fahrenheit"]["by_count"]


@pytest.mark.extended
def test_all_that_ours_do_a_spout_and_a_target_of_a_users_own_do_too(remote, tmp_path):
    shell = station(tmp_path / "own parts", remote)
    assert shell("run", TOPOLOGY, "--drain").code == 0
    assert shown(shell) == [50.0, 68.0, 86.0]
    right = [4, 3, 1, 0, 0, 0], 3
    assert audited(shell) == (0, *right)
    assert audited(shell, "--strict") == (1, *right)
    told = shell("audit", TOPOLOGY, "--strict", **NO_SPARK).out.strip()
    assert told.endswith("verdict: fail, since not everything was compared by values (--strict)")
    assert "published" in shell("trace", TOPOLOGY, "north:0", **NO_SPARK).out
    assert "readings: 0 readings unread" in shell("status", TOPOLOGY, **NO_SPARK).out

    # Another value of an acked message takes the place of the published one, and a cured one comes in.
    (shell.folder / "stations" / "north.txt").write_text("15\n25\n20\n")
    chosen = ("--message", "readings:north:0", "--message", "readings:north:1")
    by_hand = ("replay", TOPOLOGY, "--state", "acked", "--state", "dead_letter", *chosen, "--why", "mended")
    assert "matched 2, in_flight 0, replayed 0" in shell(*by_hand, "--dry-run", **NO_SPARK).out
    assert "matched 2, in_flight 0, replayed 2" in shell(*by_hand).out
    assert shell("run", TOPOLOGY, "--drain").code == 0
    assert shown(shell) == [59.0, 68.0, 77.0, 86.0]
    right = [4, 4, 0, 0, 0, 0], 4
    assert audited(shell) == (0, *right)

    backup = shell("backup", TOPOLOGY, str(tmp_path / "backup"), **NO_SPARK)
    assert (backup.code, "fahrenheit: version 1, " in backup.out) == (0, True), backup.err
    other = station(tmp_path / "restored", remote)
    assert shell_of(other, "restore", str(tmp_path / "backup")).code == 0
    assert (shown(other), audited(other)) == ([59.0, 68.0, 77.0, 86.0], (0, *right))

    trim = subprocess.run(
        [sys.executable, "-c", TRIM],
        cwd=shell.folder,
        env=shell.environ | {"PIPELINE_STREAM_RETENTION_HOURS": "0"},
        capture_output=True,
        text=True,
    )
    assert "'fahrenheit': 3" in trim.stdout, trim.stderr
    streams = shell.folder / "home" / "store" / "weather" / "streams"
    assert DeltaTable(str(streams / "fahrenheit")).count() == 0
    assert audited(shell)[:2] == (0, right[0])


def shell_of(shell, command, *arguments):
    return shell(command, TOPOLOGY, *arguments, **NO_SPARK)

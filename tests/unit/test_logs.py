"""Logs of processes: whole, within a size, and there as soon as a process has ended."""

import subprocess
import sys

import pytest

from acker.runtime.server.logs import kept_log, last_words

PRIVATE = 0o077


def run(log, code, most_bytes=1 << 20):
    with kept_log(log, PRIVATE, most_bytes) as output:
        subprocess.run([sys.executable, "-ISuc", code], stdout=output, stderr=output, check=False)


def test_a_log_has_what_a_process_says_also_after_what_another_one_said(tmp_path):
    log = tmp_path / "a log, 50%.log"
    for word in ("one", "two"):
        run(log, f"print('{word}')")
        assert last_words(log) == f"{word} The log is {log}."
    assert log.read_text() == "one\ntwo\n"


@pytest.mark.parametrize("line_bytes", [10, 1_000, 300_000])
def test_a_log_and_the_one_before_it_take_no_more_than_twice_their_size_and_end_with_whole_lines(
    tmp_path, line_bytes
):
    log, most = tmp_path / "server.log", 1 << 20
    lines = 8 * most // line_bytes
    run(log, f"for n in range({lines}): print(str(n).rjust({line_bytes} - 1))", most)
    last_words(log)  # which waits until it is whole
    assert sorted(file.name for file in tmp_path.iterdir()) == ["server.log", "server.log.old"]
    kept = (tmp_path / "server.log.old").read_text() + log.read_text()
    numbers = [int(line) for line in kept.splitlines()]
    assert numbers == [*range(numbers[0], lines)]
    assert max(file.stat().st_size for file in tmp_path.iterdir()) <= most + line_bytes


def test_a_log_that_cannot_be_rotated_goes_on(tmp_path):
    log = tmp_path / "server.log"
    (tmp_path / "server.log.old").mkdir()
    run(log, "for n in range(1000): print(n)", most_bytes=100)
    last_words(log)
    assert log.read_text().split() == [str(number) for number in range(1000)]


def test_a_log_that_cannot_be_made_is_told_before_anything_starts(tmp_path):
    with pytest.raises(FileNotFoundError):
        kept_log(tmp_path / "gone" / "server.log", PRIVATE)

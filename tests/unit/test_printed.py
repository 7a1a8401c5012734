"""What bolts print: whole lines with the bolt's name in the server's log, from where a run shows them."""

import os
from dataclasses import replace

import pytest

from acker.components.printed import Printed
from acker.runtime.printed import PrintedLines
from acker.runtime.server import process as server
from acker.runtime.settings import Settings


@pytest.fixture
def settings(tmp_path, monkeypatch):
    monkeypatch.setenv("PIPELINE_HOME", str(tmp_path))
    monkeypatch.delenv("SPARK_REMOTE", raising=False)
    made = Settings.from_env()
    server.log_of(made).parent.mkdir()
    return made


def write(settings, *lines):
    with server.log_of(settings).open("a") as log:
        log.writelines(lines)


def test_what_is_printed_goes_out_in_whole_lines_with_the_bolts_name(tmp_path):
    number = os.open(tmp_path / "log", os.O_WRONLY | os.O_CREAT)
    printed = Printed("shop/items", number)
    print("tea", 3, file=printed)
    print("half", end="", file=printed)
    print("\ntwo\nlines", file=printed)
    print("begun", end="", file=printed)
    printed.finish()
    os.close(number)
    assert (tmp_path / "log").read_text().splitlines() == [
        f"printed by shop/items: {line}" for line in ("tea 3", "half", "two", "lines", "begun")
    ]


def test_a_run_shows_what_its_bolts_print_while_it_goes_on(settings):
    write(settings, "printed by shop/items: before\n")
    lines = PrintedLines(settings, "shop")
    assert list(lines.new()) == []
    write(
        settings, "printed by shop/items: tea\n", "WARN: printed\n", "printed by other/items: no\n", "print"
    )
    assert list(lines.new()) == ["items: tea"]
    write(settings, "ed by shop/priced: \x1b[2J\n")
    assert list(lines.new()) == ["priced: \\x1b[2J"]


def test_a_server_that_is_started_meanwhile_has_a_log_of_its_own(settings):
    write(settings, "a line that is longer than what follows\n")
    lines = PrintedLines(settings, "shop")
    log = server.log_of(settings)
    log.replace(log.with_suffix(".log.old"))
    write(settings, "printed by shop/items: tea\n")
    assert list(lines.new()) == ["items: tea"]


def test_of_many_lines_the_first_are_shown_and_where_the_others_are(settings):
    lines = PrintedLines(settings, "shop")
    write(settings, *(f"printed by shop/items: {number}\n" for number in range(1_103)))
    found = list(lines.new())
    assert (found[0], found[99]) == ("items: 0", "items: 99")
    assert found[100:] == [f"… and 1,003 more lines in {server.log_of(settings)}"]


def test_of_a_server_elsewhere_nothing_is_shown(settings):
    write(settings, "printed by shop/items: tea\n")
    lines = PrintedLines(replace(settings, remote="sc://elsewhere:15002"), "shop")
    write(settings, "printed by shop/items: wine\n")
    assert list(lines.new()) == []

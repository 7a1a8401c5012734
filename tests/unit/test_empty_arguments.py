"""An argument that is there and empty is refused: it is of a variable that is not set."""

import click
import pytest
from click.testing import CliRunner

from acker.cli.commands import COMMANDS, main


def options() -> list[tuple[str, str]]:
    """Each option of each command that takes a value."""
    group = click.Context(main)
    commands = {name: main.get_command(group, name) for name in COMMANDS}
    return [
        (name, option)
        for name, command in commands.items()
        for each in command.params
        if isinstance(each, click.Option) and not each.is_flag
        for option in each.opts
        if option.startswith("--")
    ]


@pytest.mark.parametrize("value", ["", "  "])
@pytest.mark.parametrize(("command", "option"), options())
def test_an_empty_option_is_refused(command, option, value):
    for arguments in ([option, value], [f"{option}={value}"]):
        found = CliRunner().invoke(main, [command, "sales", *arguments])
        told = f"Error: {option} is empty. Give it a value, or leave it out."
        assert (found.exit_code, told in found.output) == (2, True), found.output


@pytest.mark.parametrize("command", COMMANDS)
def test_an_empty_argument_is_refused(command):
    found = CliRunner().invoke(main, [command, "sales", ""])
    told = f"Error: An argument of {command} is empty. Give it a value, or leave it out."
    assert (found.exit_code, told in found.output) == (2, True), found.output

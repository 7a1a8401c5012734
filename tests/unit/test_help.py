"""What `acker` says of itself, and how little it loads for that."""

import subprocess
import sys

import click
import pytest
from click.testing import CliRunner

from acker.cli.commands import COMMANDS, main

HEAVY = "{'pyspark', 'polars', 'pyarrow', 'deltalake', 'pandas', 'rich', 'airflow'}"


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], *([name, "-h"] for name in COMMANDS)])
def test_help_loads_neither_spark_nor_polars(arguments):
    code = (
        f"import sys; from acker.cli.commands import main; main({arguments}, standalone_mode=False); "
        f"print(sorted({HEAVY} & {{name.partition('.')[0] for name in sys.modules}}))"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_is_where_the_list_says(name):
    command = main.get_command(click.Context(main), name)
    assert (command.name, bool(command.help)) == (name, True)


def test_the_help_lists_every_command():
    told = CliRunner().invoke(main, ["--help"])
    listed = [
        line.split()[0] for line in told.output.partition("Commands:")[2].splitlines() if line[2:3].strip()
    ]
    assert (listed, told.exit_code) == (list(COMMANDS), 0)


def test_a_misspelt_command_is_answered_with_the_one_that_was_meant():
    told = CliRunner().invoke(main, ["statsu", "wordcount"])
    assert (told.exit_code, told.stderr.splitlines()[-1]) == (
        2,
        "Error: There is no command 'statsu'. Did you mean status?",
    )

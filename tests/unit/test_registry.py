"""The registered topologies: found by their names, listed with what is wrong with some."""

import json
import sys

import pytest
from click.testing import CliRunner

from acker.cli.commands import main
from acker.core.errors import TopologyError
from acker.runtime.registry import load_topology
from acker.runtime.settings import Settings

MODULE = '''
"""{name} of the shop.

And more.
"""
from acker import FileSpout, Topology

topology = Topology("{name}")
topology.spout("lines", FileSpout("lines"))
'''
TWICE = "PIPELINE_TOPOLOGIES has more than one topology called returns; rename one."


@pytest.fixture
def settings(tmp_path, monkeypatch):
    modules = {"first_sales": "sales", "first_returns": "returns", "again": "returns"}
    for module, name in modules.items():
        (tmp_path / f"{module}.py").write_text(MODULE.format(name=name))
    monkeypatch.syspath_prepend(str(tmp_path))
    strings = [f"{module}:topology" for module in (*modules, "gone")]
    monkeypatch.setenv("PIPELINE_TOPOLOGIES", ",".join(strings))
    monkeypatch.setenv("PIPELINE_HOME", str(tmp_path))
    yield Settings.from_env()
    for module in modules:
        sys.modules.pop(module, None)


def test_a_topology_is_found_although_others_are_wrong(settings):
    assert load_topology("sales", settings).name == "sales"


def test_a_name_that_two_topologies_have_is_refused(settings):
    with pytest.raises(TopologyError, match=TWICE):
        load_topology("returns", settings)
    assert load_topology("again:topology", settings).name == "returns"


def test_a_name_that_is_not_there_is_answered_with_those_that_are_and_what_does_not_import(settings):
    with pytest.raises(
        TopologyError, match=r"registered are: returns, sales\. Did you mean sales\?.* gone:topology does"
    ):
        load_topology("salse", settings)


def test_the_list_has_a_line_for_each_and_says_what_is_wrong(settings):
    told = CliRunner().invoke(main, ["list", "--json"])
    assert [(each["name"], each["doc"], each["fault"]) for each in json.loads(told.output)] == [
        ("sales", "sales of the shop.", None),
        ("returns", "returns of the shop.", None),
        ("returns", "returns of the shop.", TWICE),
        (
            None,
            "",
            "gone:topology does not import: ModuleNotFoundError: No module named 'gone'. "
            "Call the command in the folder that gone is in, or put that on PYTHONPATH.",
        ),
    ]
    shown = " ".join(CliRunner().invoke(main, ["list"]).output.split())
    assert "sales of the shop." in shown and "rename one." in shown


def test_a_command_is_named_with_what_was_typed_for_the_topology(settings, tmp_path):
    def told(*arguments: str) -> str:
        return CliRunner().invoke(main, arguments).output

    for typed in ("sales", "first_sales:topology", "sales"):
        for command in (("status",), ("audit",), ("fold",), ("publish",), ("acknowledge",), ("replay",)):
            assert f"Has `acker run {typed}` run with this store?" in told(command[0], typed), command


@pytest.mark.parametrize(
    "arguments",
    [
        ["fold"],
        ["publish"],
        ["acknowledge"],
        ["give-up", "lines", "--why", "so"],
        ["replay"],
        ["replay", "--state", "dead_letter"],
        ["forget", "--message", "lines:a:1", "--why", "so"],
        ["migrate"],
        ["backup", "copy"],
        ["move", "elsewhere"],
    ],
    ids=" ".join,
)
def test_only_a_run_makes_a_store(settings, tmp_path, arguments):
    command, *rest = arguments
    CliRunner().invoke(main, [command, "sales", *rest])
    assert not (tmp_path / "store").exists()


def test_where_no_topology_is_registered_the_list_says_how_to_register_one(settings, monkeypatch):
    monkeypatch.delenv("PIPELINE_TOPOLOGIES")
    monkeypatch.chdir(settings.home)
    told = CliRunner().invoke(main, ["list"])
    assert (told.exit_code, told.output) == (
        0,
        "No topology is registered. Add import strings, package.module:attribute, to PIPELINE_TOPOLOGIES or "
        "pyproject.toml, or give a command one in place of a name.\n",
    )
    assert CliRunner().invoke(main, ["list", "--json"]).output == "[]\n"


@pytest.mark.parametrize(
    ("to", "told"),
    [
        ("{home}/store/sales/ledger", "which lies in the store"),
        ("{home}/store/sales/streams/lines", "which lies in the store"),
        ("{home}/store", "which lies in the store"),
        ("{home}/store/other", "which lies in the store"),
        ("file:{home}/store/x", "which lies in the store"),
        ("{link}/x", "which lies in the store"),
        ("{home}", "in which .* or PIPELINE_HOME lies"),
        ("/", "in which .* or PIPELINE_HOME lies"),
    ],
)
def test_nothing_is_published_into_a_store_or_around_one(settings, tmp_path, to, told):
    (tmp_path / "store").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "store")
    path = to.format(home=tmp_path, link=tmp_path / "link")
    (tmp_path / "first_sales.py").write_text(
        f"{MODULE.format(name='sales')}topology.publish('lines', to={path!r})\n"
    )
    with pytest.raises(
        TopologyError, match=rf"^lines is published to .*, {told}.* Publish to a folder beside"
    ):
        load_topology("sales", settings)


def test_a_table_beside_the_store_is_published_to(settings, tmp_path):
    text = f"{MODULE.format(name='sales')}topology.publish('lines', to={str(tmp_path / 'stores')!r})\n"
    (tmp_path / "first_sales.py").write_text(text)
    assert load_topology("sales", settings).publications["lines"].to == str(tmp_path / "stores")

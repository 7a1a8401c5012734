"""What `docs/how-to/mistakes.md` says is printed is printed. The mistakes that need Spark are elsewhere."""

import sys

import pytest
from click.testing import CliRunner

from acker.cli.commands import main
from tests.kit.mistakes import PAGE, mistakes
from tests.unit.failing import sales

SHOP = """
from acker import Count, FileSpout, Topology

topology = Topology("shop")
orders = topology.spout("orders", FileSpout("orders"))

@topology.basic_bolt(orders, schema="item string")
def items(row):
    yield {"item": row.value}

@topology.bolt(items)
def priced(tuples):
    return tuples

topology.publish(priced, to="prices")
"""
# Module -> what is right in `SHOP`, and what stands in its place.
WRONG = {
    "raising": ("topology.publish", "total = 1 / 0\ntopology.publish"),
    "misspelt": ("@topology.bolt(items)", '@topology.bolt("itmes")'),
    "unknown": ("topology.publish(priced", 'topology.publish("price"'),
    "circular": ("@topology.basic_bolt(orders,", '@topology.basic_bolt("priced",'),
    "spoutless": ('orders = topology.spout("orders", FileSpout("orders"))', 'orders = "items"'),
    "capital": ('Topology("shop")', 'Topology("Shop")'),
    "same": ("def priced(", "def items("),
    "half": ('to="prices")', 'to="prices", by="item")'),
    "shared": ('to="prices")', 'to="prices")\ntopology.publish(items, to="prices")'),
    "minutes": ('Topology("shop")', 'Topology("shop", message_timeout="10 mins")'),
    "silent": ('    yield {"item": row.value}', '    {"item": row.value}'),
    "unpublished": ('topology.publish(priced, to="prices")', ""),
    "grouped": ("@topology.bolt(items)", '@topology.bolt(items.fields_grouping("item"))'),
}
NO_SPARK = [mistake for mistake in mistakes() if not mistake.needs_spark]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a store that was used, and with modules that each have one mistake."""
    found = tmp_path_factory.mktemp("mistakes")
    modules = {name: SHOP.replace(right, wrong) for name, (right, wrong) in WRONG.items()}
    modules["twice"] = "from acker import FileSpout, Topology\n" + "".join(
        f'{name} = Topology("twice")\n{name}.spout("lines", FileSpout("lines"))\n' for name in ("a", "b")
    )
    for name, source in modules.items():
        (found / f"{name}.py").write_text(source)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(found)
        patch.syspath_prepend(str(found))
        patch.setenv("PIPELINE_HOME", "home")
        patch.setenv("PIPELINE_TOPOLOGIES", "sales:topology,twice:a,twice:b")
        sales(found)
        yield found
    for name in ("sales", *modules):
        sys.modules.pop(name, None)


def test_the_page_has_at_least_25_mistakes():
    assert len(mistakes()) >= 25
    assert len(mistakes()) == sum(line.startswith("| ") for line in PAGE.read_text().splitlines()) - 1


@pytest.mark.parametrize("mistake", NO_SPARK, ids=lambda mistake: mistake.what)
def test_a_mistake_is_told_as_the_page_says(folder, mistake):
    told = CliRunner(env=mistake.environ).invoke(main, mistake.arguments)
    assert mistake.is_told_in(told.output), told.output
    assert told.exit_code == (0 if mistake.printed.startswith("Warning: ") else 2)


@pytest.mark.parametrize("name", WRONG)
def test_each_wrong_topology_has_the_mistake_that_it_is_for(name):
    assert SHOP.count(WRONG[name][0]) == 1

"""What `docs/how-to/mistakes.md` says is printed is printed. The mistakes that need Spark are elsewhere."""

import sys

import pytest
from click.testing import CliRunner

from acker.cli.commands import main
from tests.kit.mistakes import PAGE, mistakes
from tests.unit.failing import sales

SHOP = """
from acker import *

topology = Topology("shop")
orders = topology.spout("orders", FileSpout("orders"))

@topology.basic_bolt(orders, schema="item string")
def items(row):
    yield {"item": row.value}

@topology.bolt(items)
def priced(tuples):
    return tuples

@topology.rich_bolt(items, schema="item string")
class Words(RichBolt):
    def execute(self, tup, collector):
        collector.ack(tup)

topology.publish(priced, to="prices")
"""
TOPOLOGY, SPOUT, RICH = 'Topology("shop")', 'FileSpout("orders"))', "class Words(RichBolt):"
BASIC, FRAMES = '@topology.basic_bolt(orders, schema="item string")', "@topology.bolt(items)"
PUBLISH = 'topology.publish(priced, to="prices")'
EXECUTE = "    def execute(self, tup, collector):\n        collector.ack(tup)"
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
    "windowless": (TOPOLOGY, 'Topology("shop", windows=0)'),
    "silent": ('    yield {"item": row.value}', '    {"item": row.value}'),
    "unacked": ("collector.ack(tup)", 'collector.emit(tup, {"item": tup.item})'),
    "unpublished": ('topology.publish(priced, to="prices")', ""),
    "grouped": ("@topology.bolt(items)", '@topology.bolt(items.fields_grouping("item"))'),
    # Wrong types of arguments.
    "retried": (TOPOLOGY, 'Topology("shop", retry=3)'),
    "seconds": (TOPOLOGY, 'Topology("shop", message_timeout=600)'),
    "pending": (TOPOLOGY, 'Topology("shop", max_pending="many")'),
    "argued": (TOPOLOGY, 'Topology("shop", retires=3)'),
    "waits": (TOPOLOGY, 'Topology("shop", retry=ExponentialBackoff(limit="3"))'),
    "pathed": (SPOUT, '"orders")'),
    "uncalled": (SPOUT, "FileSpout)"),
    "folders": (SPOUT, 'FileSpout(["orders"]))'),
    "formats": (SPOUT, 'FileSpout("orders", format="cvs"))'),
    "schemes": (SPOUT, 'KafkaSpout("localhost:9092", "orders", scheme="json"))'),
    "bare": (BASIC, "@topology.basic_bolt"),
    "schemaless": (BASIC, "@topology.basic_bolt(orders)"),
    "dicts": (BASIC, '@topology.basic_bolt(orders, schema={"item": "string"})'),
    "typed": (BASIC, '@topology.basic_bolt(orders, schema="item strng")'),
    "untyped": (BASIC, '@topology.basic_bolt(orders, schema="item")'),
    "kept": (BASIC, '@topology.basic_bolt(orders, schema="_item string")'),
    "repeated": (BASIC, '@topology.basic_bolt(orders, schema="item string, item string")'),
    "parted": (BASIC, '@topology.basic_bolt(orders, schema="id bigint; item string")'),
    "opened": (BASIC, '@topology.basic_bolt(orders, schema="item array<string")'),
    "precise": (BASIC, '@topology.basic_bolt(orders, schema="item decimal(40, 2)")'),
    "foreign": (
        BASIC,
        '@topology.basic_bolt(Topology("other").spout("orders", FileSpout("x")), schema="item string")',
    ),
    "listed": (BASIC, '@topology.basic_bolt([orders], schema="item string")'),
    "counted": (PUBLISH, 'topology.publish(priced, "prices", by="item", aggregates={"n": "count"})'),
    "keyed": (PUBLISH, 'topology.publish(priced, "prices", by="item", aggregates={"item": Count()})'),
    "doubled": (
        PUBLISH,
        'topology.publish(priced, "prices", by=["item", "item"], aggregates={"n": Count()})',
    ),
    "inward": (PUBLISH, 'topology.publish(priced, to="home/store/prices")'),
    "emptied": (PUBLISH, 'topology.publish(priced, to="")'),
    "numbered": (PUBLISH, "topology.publish(priced, to=5)"),
    "undecorated": (PUBLISH, 'def plain(row):\n    pass\n\ntopology.publish(plain, to="prices")'),
    # Functions and classes that cannot be called as they are to be.
    "unasked": ("def items(row):", "def items():"),
    "framed": ("    return tuples", "    yield tuples"),
    "waited": ("def items(row):", "async def items(row):"),
    "classless": (RICH, "class Words:"),
    "functional": (RICH + "\n" + EXECUTE, "def words(tup, collector):\n    collector.ack(tup)"),
    "executed": ("def execute(self, tup, collector):", "def execute(self, tup):"),
    "yielding": ("        collector.ack(tup)", "        yield collector.ack(tup)"),
    "columnless": ("topology.rich_bolt(items,", "topology.rich_bolt(items.fields_grouping(),"),
    "inputless": (BASIC, '@topology.basic_bolt(schema="item string")'),
    "nameless": (PUBLISH, 'topology.basic_bolt(items, schema="item string")(lambda row: [row])'),
    "sized": (EXECUTE, "    def __init__(self, size):\n        self.size = size\n\n" + EXECUTE),
    "surprising": (
        SPOUT,
        "type('Own', (FileSpout,), {'__repr__': lambda self: 1 / 0})('orders'))",
    ),
    "locked": (
        '    yield {"item": row.value}',
        '    with LOCK:\n        yield {"item": row.value}\n\nimport threading\nLOCK = threading.Lock()',
    ),
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


def test_the_page_has_at_least_60_mistakes():
    assert len(mistakes()) >= 60
    assert len(mistakes()) == sum(line.startswith("| ") for line in PAGE.read_text().splitlines()) - 1


@pytest.mark.parametrize("mistake", NO_SPARK, ids=lambda mistake: mistake.what)
def test_a_mistake_is_told_as_the_page_says(folder, mistake):
    told = CliRunner(env=mistake.environ).invoke(main, mistake.arguments)
    assert mistake.is_told_in(told.output), told.output
    is_error = mistake.printed.startswith("Error: ")
    assert told.exit_code == (2 if is_error else 0)
    assert not is_error or len(told.output.splitlines()) < 3


@pytest.mark.parametrize("name", WRONG)
def test_each_wrong_topology_has_the_mistake_that_it_is_for(name):
    assert SHOP.count(WRONG[name][0]) == 1

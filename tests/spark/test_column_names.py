"""A bolt's tuple gives the values of its columns, whatever their names, and shows nothing else for them."""

import pytest

from acker.components.collector import RichBolt
from acker.spouts import FileSpout
from acker.testing import run_bolt
from acker.topology.topology import Topology

METHODS = ["cls", "self", "count", "index", "asDict"]
OWN = ["values", "component", "stream", "held"]
ODD = ["2nd", "a-b", "größe", "class", "args", "kwargs", "tup", "name"]
COLUMNS = [*METHODS, *OWN, *ODD]
SCHEMA = ", ".join(f"`{name}` bigint" for name in COLUMNS)
ROWS = [{name: 10 * row + number for number, name in enumerate(COLUMNS)} for row in range(2)]


def reading():
    topology = Topology("named")
    return topology, topology.spout("lines", FileSpout("/nowhere", format="json", schema=SCHEMA))


def taken(tup):
    """The values of a tuple by attribute, which are the same as by item."""
    found = {name: getattr(tup, name) for name in COLUMNS}
    assert found == {name: tup[name] for name in COLUMNS}
    return found


class Taken(RichBolt):
    """Emits a tuple in every way, and fails one of which its own attributes say something else."""

    def execute(self, tup, collector):
        if (tup._component, tup._stream, tup._held) == ("lines", None, False):
            for values in (taken(tup), tup, tup._values):
                collector.emit(tup, values)
            collector.ack(tup)


@pytest.mark.parametrize("kind", ["basic", "rich"])
def test_columns_of_any_name_are_given_to_a_bolt_and_emitted_by_it(spark, kind):
    topology, lines = reading()
    if kind == "basic":
        basic = topology.basic_bolt(lines, schema=SCHEMA, name="same")
        bolt = basic(lambda tup: [taken(tup), tup, tuple(tup)])
    else:
        bolt = topology.rich_bolt(lines, schema=SCHEMA)(Taken)
    result = run_bolt(bolt, ROWS, schema=SCHEMA, spark=spark)
    assert (result.failures, result.held, result.rows) == ([], [], [row for row in ROWS for _ in range(3)])


def test_the_attributes_of_a_rich_bolts_tuple_stay_where_no_column_has_their_name(spark):
    topology = Topology("plain")
    lines = topology.spout("lines", FileSpout("/nowhere", format="json", schema="id bigint"))

    class Told(RichBolt):
        def execute(self, tup, collector):
            collector.emit(tup, {"told": repr((tup.component, tup.stream, tup.held, tup.values.asDict()))})
            collector.ack(tup)

    bolt = topology.rich_bolt(lines, schema="told string")(Told)
    result = run_bolt(bolt, [{"id": 7}], spark=spark)
    assert result.rows == [{"told": "('lines', None, False, {'id': 7})"}]

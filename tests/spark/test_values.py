"""Whatever a Python bolt yields into a column of any type arrives as it was, or fails its tuple, in Spark."""

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from acker.components.collector import RichBolt
from acker.spouts import FileSpout
from acker.testing import run_bolt
from acker.topology.topology import Topology
from tests.kit.exact_values import ANY, OWN, is_same

EACH = 300  # values of each type, half of them such as it has to take
HELD = {ddl: own for ddl, own in OWN.items() if not ddl.startswith("interval")}  # by streams
SCHEMA = ", ".join(["id bigint", *(f"c{number} {ddl}" for number, ddl in enumerate(HELD))])


def drawn(strategy):
    """Values of a strategy, the same ones each time, and fewer where it has not so many."""
    found = []

    @settings(
        max_examples=EACH // 2,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def keep(value):
        found.append(value)

    keep()
    return found


def emitting(values, kind):
    """A bolt that emits the value of each tuple's number into the column of its type."""
    topology = Topology("exact")
    numbers = topology.spout("numbers", FileSpout("/nowhere", format="json", schema="id bigint"))
    if kind == "basic":

        @topology.basic_bolt(numbers, schema=SCHEMA)
        def emit(tup):
            column, value = values[tup.id]
            yield {"id": tup.id, f"c{column}": value}

        return emit

    class Emit(RichBolt):
        def execute(self, tup, collector):
            column, value = values[tup.id]
            collector.emit(tup, {"id": tup.id, f"c{column}": value})
            collector.ack(tup)

    return topology.rich_bolt(numbers, schema=SCHEMA)(Emit)


@pytest.mark.extended
@pytest.mark.parametrize("kind", ["basic", "rich"])
def test_any_value_arrives_as_it_was_yielded_or_fails_its_tuple(spark, kind):
    """Up to 300 values for each type that streams hold in one batch; those of the type itself all arrive."""

    given_values = [
        (column, value, is_own)
        for column, own in enumerate(HELD.values())
        for is_own, some in ((True, own), (False, ANY))
        for value in drawn(some)
    ]
    values = [(column, value) for column, value, _ in given_values]
    own = [is_own for *_, is_own in given_values]
    result = run_bolt(emitting(values, kind), [{"id": number} for number in range(len(values))], spark=spark)
    found = {row["id"]: row for row in result.rows}
    kinds = list(HELD)
    changed = [
        (kinds[column], value, found[number][f"c{column}"])
        for number, (column, value) in enumerate(values)
        if number in found and not is_same(kinds[column], value, found[number][f"c{column}"])
    ]
    failed = {failure.row["id"]: failure.reason for failure in result.failures}
    refused = [(kinds[values[number][0]], values[number], failed[number]) for number in failed if own[number]]
    counts = f"{len(found)} arrived, {len(failed)} failed, {len(changed)} changed"
    print(f"{kind}: {len(values)} values, {counts}")
    assert (changed, refused) == ([], [])
    assert found.keys() | failed.keys() == set(range(len(values)))
    assert all(reason.startswith("ValueError: column c") for reason in failed.values())

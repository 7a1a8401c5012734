"""What `docs/how-to/mistakes.md` says is printed is what is printed, where that needs Spark."""

import sys

import pytest
from click.testing import CliRunner

from acker.cli.commands import main
from tests.kit.mistakes import mistakes

pytestmark = pytest.mark.extended

SHOP = """
from acker import Count, FileSpout, Sum, Topology
from pyspark.sql import functions as F

topology = Topology("shop")
orders = topology.spout("orders", FileSpout("orders"))

@topology.basic_bolt(orders, schema="item string, cents bigint")
def items(row):
    yield {"item": row.value, "cents": len(row.value)}

@topology.bolt(items)
def priced(tuples):
    return tuples.select("anchor", "item", F.col("cents") * 2)

topology.publish(items, to="sales", by="item", aggregates={"n": Count(), "cents": Sum("cents")})
topology.publish(priced, to="prices")
"""
# Module -> what is right in `SHOP`, and what stands in its place.
WRONG = {
    "column": ('F.col("cents") * 2)', 'F.col("cnets") * 2)'),
    "attribute": ('F.col("cents") * 2)', "tuples.cnets * 2)"),
    "undefined": ('F.col("cents") * 2)', "f.col('cents') * 2)"),
    "nothing": ("return tuples.select(", "tuples.select("),
    "collected": ('F.col("cents") * 2)', 'F.col("cents") * 2).collect()'),
    "unanchored": ('select("anchor", "item"', 'select("item"'),
    "reserved": ('F.col("cents") * 2)', 'F.col("cents").alias("_cents"))'),
    "same": ('F.col("cents") * 2)', 'F.col("cents").alias("item"))'),
    "summed": ('Sum("cents")', 'Sum("centz")'),
    "text": ('Sum("cents")', 'Sum("item")'),
    "key": ('by="item"', 'by="itme"'),
    "grouped": ('tuples.select("anchor", "item", F.col("cents") * 2)', 'tuples.groupBy("item").count()'),
}


@pytest.fixture(scope="module")
def folder(remote, tmp_path_factory):
    """A folder with a source of two lines, and with modules that each have one mistake."""
    found = tmp_path_factory.mktemp("mistakes")
    for name, (right, wrong) in WRONG.items():
        (found / f"{name}.py").write_text(SHOP.replace(right, wrong))
    (found / "orders").mkdir()
    (found / "orders" / "monday.txt").write_text("tea\nwine\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(found)
        patch.syspath_prepend(str(found))
        patch.setenv("SPARK_REMOTE", remote)
        yield found
    for name in WRONG:
        sys.modules.pop(name, None)


@pytest.mark.parametrize(
    "mistake", [each for each in mistakes() if each.needs_spark], ids=lambda mistake: mistake.what
)
def test_a_mistake_is_told_as_the_page_says(folder, mistake, tmp_path):
    told = CliRunner(env={"PIPELINE_HOME": str(tmp_path)}).invoke(main, mistake.arguments)
    assert mistake.is_told_in(told.output), told.output
    assert (told.exit_code, "Traceback" in told.output) == (2, False)

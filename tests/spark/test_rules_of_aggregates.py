"""What a table of running aggregates refuses, before the ack or after it: a row fails its message alone."""

from dataclasses import dataclass, field

import pytest
from pyspark.sql import functions as F

from acker.core.retry import ExponentialBackoff
from acker.operations.cycle import run_cycle
from acker.operations.publish import publish
from acker.reports.audit import audit_report
from acker.spouts import DeltaSpout
from acker.targets.functions import Count, Max, Min, Sum
from acker.topology.topology import Topology

TYPES = {"k": "string", "total": "decimal(38,0)", "most": "string", "least": "string", "count": "bigint"}
USUAL = {"k": "concat('k', n)", "n": "n", "t": "'7'"}
LONG = "repeat('ü', 127)"


@dataclass(frozen=True)
class Rule:
    """A rule of a table, a row that breaks it, and what is said of that.

    Args:
        said: of the row that breaks it.
        row: columns that it has otherwise.
        types: columns of the table that are otherwise, and further ones.
        more: what follows the columns where the table is made.
        check: a condition that is added.
    """

    said: str
    row: dict[str, str]
    types: dict[str, str] = field(default_factory=dict)
    more: str = ""
    check: str = ""


RULES = {
    # Of the key all is known before the ack.
    "a varchar key": Rule("k is longer than varchar(3)", {"k": "'äbcd'"}, {"k": "varchar(3)"}),
    "a char key": Rule("k is longer than char(3)", {"k": "'abcd'"}, {"k": "char(3)"}),
    "a key that is not null": Rule("k is null", {"k": "null"}, {"k": "string NOT NULL"}),
    "a check of the key": Rule("breaks the constraint few", {"k": "'x'"}, check="k <> 'x'"),
    "an empty partition": Rule("k is empty", {"k": "''"}, more="PARTITIONED BY (k)"),
    "a long partition": Rule(
        "k is too long for the name of a folder", {"k": LONG}, more="PARTITIONED BY (k)"
    ),
    # Of what is added up the table itself says it, after the ack.
    "a varchar maximum": Rule("LIMIT", {"t": "'abcd'"}, {"most": "varchar(3)"}),
    "a char minimum": Rule("LIMIT", {"t": "'abcd'"}, {"least": "char(3)"}),
    "a maximum that is not null": Rule("NOT_NULL", {"t": "null"}, {"most": "string NOT NULL"}),
    "a minimum that is not null": Rule("NOT_NULL", {"t": "null"}, {"least": "string NOT NULL"}),
    "a check of a sum": Rule("CHECK constraint few", {"n": "1000"}, check="total < 1000"),
    "a check of a count": Rule("CHECK constraint few", {"k": "'k1'"}, check="count < 2"),
    "a check of the tuples": Rule("CHECK constraint few", {"k": "'k1'"}, check="_tuples < 2"),
    "a check of key and sum": Rule("CHECK constraint few", {"n": "-5"}, check="total >= 0 OR k = 'z'"),
    "a check of a default": Rule(
        "CHECK constraint few", {"n": "777"}, {"extra": "int NOT NULL DEFAULT 777"}, check="total <> extra"
    ),
    "a check that raises": Rule("'many'", {"t": "'many'"}, check="CAST(most AS INT) < 9"),
    "a generated column that does not cast": Rule(
        "'seven'", {"t": "'seven'"}, {"number": "int GENERATED ALWAYS AS (CAST(most AS INT))"}
    ),
    "a generated column that divides": Rule(
        "zero", {"n": "-n"}, {"share": "double GENERATED ALWAYS AS (1 / CAST(sign(total) + 1 AS DOUBLE))"}
    ),
    "a generated partition": Rule(
        "too long",
        {"t": LONG},
        {"part": "string GENERATED ALWAYS AS (substring(most, 1, 500))"},
        more="PARTITIONED BY (part)",
    ),
    "a narrow decimal": Rule("Decimal(5, 0)", {"n": "123456"}, {"total": "decimal(5,0)"}),
    "a bigint": Rule("overflow", {"k": "'k1'", "n": str(2**63 - 1)}, {"total": "bigint"}),
}


def table_of(spark, path, rule):
    """Make the table of a rule."""
    types = {**TYPES, **rule.types, "_tuples": "bigint"}
    columns = ", ".join(f"{name} {kind}" for name, kind in types.items())
    spark.sql(
        f"CREATE TABLE delta.`{path}` ({columns}) USING delta {rule.more} "
        "TBLPROPERTIES ('delta.feature.allowColumnDefaults' = 'supported')"
    )
    if rule.check:
        spark.sql(f"ALTER TABLE delta.`{path}` ADD CONSTRAINT few CHECK ({rule.check})")


@pytest.mark.extended
@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_a_row_that_breaks_a_rule_of_a_table_of_aggregates_fails_its_message_alone(rule, place, spark):
    target = place.path("target")
    table_of(spark, target, rule)
    topology = Topology("ruled", retry=ExponentialBackoff(limit=0))
    lines = topology.spout("lines", DeltaSpout(place.add("lines", n=[1, 2, 3]), key="n"))

    @topology.bolt(lines)
    def made(tuples):
        columns = {
            name: F.expr(f"CASE n WHEN 2 THEN {rule.row.get(name, usual)} ELSE {usual} END")
            for name, usual in USUAL.items()
        }
        return tuples.select("anchor", *(column.alias(name) for name, column in columns.items()))

    totals = {"total": Sum("n"), "most": Max("t"), "least": Min("t"), "count": Count()}
    topology.publish(made, to=target, by="k", aggregates=totals)
    run = place.run(topology)
    for _ in range(2):  # what is refused after the ack is a dead letter of the next fold
        run_cycle(run)
    found = audit_report(run.topology, run.store)
    (letter,) = found.dead_letters
    assert rule.said in letter.why
    rows = spark.read.format("delta").load(target).selectExpr("rtrim(k)", "total", "count").collect()
    assert (found.verdict, found.acked, publish(run)) == ("pass", 2, 0)
    assert (letter.message, sorted(rows)) == ("lines:0:2", [("k1", 1, 1), ("k3", 3, 1)])

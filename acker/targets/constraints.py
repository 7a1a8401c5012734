"""Published tables that exist already: what they would refuse fails a message before it is acked.

A row that broke a table's NOT NULL or CHECK constraint would otherwise abort the publish of a whole
fold, long after its message was acked.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from acker.batches.run import Run
from acker.core.delta import open_table
from acker.core.errors import BoltError
from acker.core.events import Kind
from acker.core.quoting import sql_name
from acker.core.schemas import component_of, of_stream
from acker.spark.delta import read
from acker.topology.topology import Publication

_CHECK = "delta.constraints."


def refusals(run: Run, component: str, rows: DataFrame) -> DataFrame:
    """`rows` of a component, those that a table to which they are published would refuse as failures.

    Raises:
        BoltError: a column's type differs from the table's, so that every row would be refused.
    """
    for name, publication in run.topology.publications.items():
        if component_of(name) == component and not publication.by:
            rows = _refusals(run, publication, rows)
    return rows


def _refusals(run: Run, publication: Publication, rows: DataFrame) -> DataFrame:
    component, table = publication.component, open_table(publication.to)
    if table is None:
        return rows
    published = run.columns(rows, component)
    target = read(run.spark, publication.to)
    types = dict(target.dtypes)
    for column, found in rows.dtypes:
        if column in published and types.get(column, found) != found:
            raise BoltError(
                f"{component} emits {column} as {found}, but {publication.to} has it as {types[column]}. "
                "Cast it in the bolt, or publish to a new table."
            )
    rules = {
        f"{field.name} is null": F.col(sql_name(field.name)).isNull()
        for field in target.schema.fields
        if not field.nullable and field.name in published
    }
    for key, expression in table.metadata().configuration.items():
        if key.startswith(_CHECK):
            # A constraint holds unless it is false or null, as in Delta.
            broken = ~F.coalesce(F.expr(expression), F.lit(False))
            rules[f"breaks the constraint {key.removeprefix(_CHECK)}: {expression}"] = broken
    if not rules:
        return rows
    reason = F.coalesce(
        *[F.when(broken, F.lit(f"{publication.to}: {text}")) for text, broken in rules.items()]
    )
    mine = F.expr(of_stream(component, rows.columns))
    refused = F.col("_kind").isNull() & mine & reason.isNotNull()
    return rows.withColumns(
        {
            "_error": F.when(refused, reason).otherwise(F.col("_error")),
            "_kind": F.when(refused, Kind.FAIL.value).otherwise(F.col("_kind")),
        }
    )

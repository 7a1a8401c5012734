"""The columns that a component may emit."""

from collections.abc import Iterable

from pyspark.sql.types import StructField, StructType

from acker.core.errors import BoltError
from acker.core.names import not_storable


def check_columns(kind: str, component: str, columns: Iterable[str]) -> None:
    """Refuse columns that the store keeps for itself, that no table can keep, or that occur twice.

    Args:
        kind: "Spout" or "Bolt".

    Raises:
        BoltError: there are such columns, which the error names.
    """
    columns = list(columns)
    reserved = [column for column in columns if column.startswith("_") or column.lower() == "anchor"]
    if reserved:
        raise BoltError(
            f"{kind} {component} emits {', '.join(reserved)}: "
            "`anchor` and names that begin with an underscore are reserved; rename it.",
            component=component,
        )
    for column in columns:
        if strange := not_storable(column):
            raise BoltError(
                f"{kind} {component} emits {column!r}, whose name has {strange}; rename it.",
                component=component,
            )
    twice = {column for column in columns if [c.lower() for c in columns].count(column.lower()) > 1}
    if twice:
        raise BoltError(
            f"{kind} {component} emits {', '.join(sorted(twice))} more than once; rename or drop one.",
            component=component,
        )


def nullable(schema: StructType) -> list[StructField]:
    """The columns of a schema, all of them nullable, for the rows that a bolt's Python code makes.

    A row that fails its message has no values, so Spark is told that each column may be null. Python checks
    that columns which are NOT NULL have a value in all other rows.
    """
    return [StructField(column.name, column.dataType) for column in schema.fields]

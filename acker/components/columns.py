"""The names of columns that a component may emit."""

from collections.abc import Iterable

from acker.core.errors import BoltError


def check_columns(kind: str, component: str, columns: Iterable[str]) -> None:
    """Refuse columns that the store keeps for itself, or that occur twice.

    Args:
        kind: "Spout" or "Bolt".

    Raises:
        BoltError: naming the columns.
    """
    columns = list(columns)
    reserved = [column for column in columns if column.startswith("_") or column.lower() == "anchor"]
    if reserved:
        raise BoltError(
            f"{kind} {component} emits {', '.join(reserved)}: "
            "`anchor` and names that begin with an underscore are reserved; rename it.",
            component=component,
        )
    twice = {column for column in columns if [c.lower() for c in columns].count(column.lower()) > 1}
    if twice:
        raise BoltError(
            f"{kind} {component} emits {', '.join(sorted(twice))} more than once; rename or drop one.",
            component=component,
        )

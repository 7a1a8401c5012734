"""NOT NULL within structs, arrays and maps: the values that have a null where none may be."""

from collections.abc import Callable, Iterator

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from acker.core.quoting import sql_name

_Broken = Callable[[Column], Column]


def nulls_within(field: StructField) -> dict[str, Column]:
    """Text of each NOT NULL within a column of a table -> whether a row breaks it."""
    column = F.col(sql_name(field.name))
    return {f"{name} is null": broken(column) for name, broken in _within(field.name, field.dataType)}


def has_not_null(kind: DataType) -> bool:
    """Whether a type has a NOT NULL within it."""
    return any(True for _ in _within("", kind))


def of_any(elements: Callable[[Column], Column], broken: _Broken) -> _Broken:
    """The condition on a column that is true where another condition holds for any of its elements.

    Args:
        elements: gives the array of a column's elements.
        broken: the condition on an element.
    """
    return lambda column: F.exists(elements(column), lambda each: F.coalesce(broken(each), F.lit(False)))


def _within(name: str, kind: DataType) -> Iterator[tuple[str, _Broken]]:
    if isinstance(kind, StructType):
        for field in kind.fields:
            yield from _at(f"{name}.{field.name}", field.dataType, field.nullable, _of_field(field.name))
    elif isinstance(kind, ArrayType):
        elements = of_elements(lambda column: column)
        yield from _at(f"{name}.element", kind.elementType, kind.containsNull, elements)
    elif isinstance(kind, MapType):
        yield from _at(f"{name}.key", kind.keyType, True, of_elements(F.map_keys))
        yield from _at(f"{name}.value", kind.valueType, kind.valueContainsNull, of_elements(F.map_values))


def _at(
    name: str, kind: DataType, may_be_null: bool, at: Callable[[_Broken], _Broken]
) -> Iterator[tuple[str, _Broken]]:
    """Each NOT NULL of a value and within it: the path, and a condition that is true where it is broken.

    Args:
        name: the path of the value.
        at: turns a condition on the value into one on the column that has the value.
    """
    if not may_be_null:
        yield name, at(Column.isNull)
    for path, broken in _within(name, kind):
        yield path, at(broken)


def _of_field(name: str) -> Callable[[_Broken], _Broken]:
    return lambda broken: lambda column: broken(column.getField(name))


def of_elements(elements: Callable[[Column], Column]) -> Callable[[_Broken], _Broken]:
    """A function that turns a condition on the elements of a column into a condition on the column.

    Args:
        elements: see `of_any`.
    """
    return lambda broken: of_any(elements, broken)

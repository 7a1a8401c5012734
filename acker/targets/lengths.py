"""Limits of CHAR and VARCHAR in columns, at any depth: the values that are too long for a table.

Delta has such a column as text. The metadata of the column at the top has its type as Spark wrote it.
"""

import re
from collections.abc import Callable, Iterator

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from acker.core.quoting import sql_name
from acker.targets.nulls import of_any

_WRITTEN = "__CHAR_VARCHAR_TYPE_STRING"
_LIMITED = re.compile(r"(?:var)?char\((\d+)\)")
_ATOM = re.compile(r"[^,<>()]+(?:\([^)]*\))?")


def too_long(field: StructField) -> dict[str, Column]:
    """Text of each limit of a column of a table -> whether a row exceeds the limit."""
    if _WRITTEN not in field.metadata:
        return {}
    text = _Text(field.metadata[_WRITTEN])
    found = _limits(field.name, field.dataType, text)
    column = F.col(sql_name(field.name))
    return {f"{name} is longer than {kind}": broken(column) for name, kind, broken in found}


_Broken = Callable[[Column], Column]


class _Text:
    """The text of a type as Spark writes it, read from its beginning."""

    def __init__(self, text: str) -> None:
        self.rest = text

    def skip(self, *texts: str) -> None:
        """Pass over the first of `texts` with which the rest begins; over nothing where there is none."""
        found = next((text for text in texts if self.rest.startswith(text)), "")
        self.rest = self.rest[len(found) :]

    def atom(self) -> str:
        """Pass over a type that has no other type within it, and return its text."""
        found = _ATOM.match(self.rest)
        atom = found[0] if found else ""
        self.rest = self.rest[len(atom) :]
        return atom


def _limits(name: str, kind: DataType, text: _Text) -> Iterator[tuple[str, str, _Broken]]:
    """Each limit within a type: the path of the limited value, the limit's text, and a condition.

    The condition is on a value of the type, and true where that value exceeds the limit.
    """
    if isinstance(kind, StructType):
        text.skip("struct<")
        for number, field in enumerate(kind.fields):
            text.skip("," if number else "")
            text.skip(f"{field.name}:", f"{sql_name(field.name)}:")
            for path, limit, broken in _limits(f"{name}.{field.name}", field.dataType, text):
                yield path, limit, _of_field(field.name, broken)
        text.skip(">")
    elif isinstance(kind, ArrayType):
        text.skip("array<")
        for path, limit, broken in _limits(f"{name}.element", kind.elementType, text):
            yield path, limit, of_any(lambda column: column, broken)
        text.skip(">")
    elif isinstance(kind, MapType):
        text.skip("map<")
        for path, limit, broken in _limits(f"{name}.key", kind.keyType, text):
            yield path, limit, of_any(F.map_keys, broken)
        text.skip(",")
        for path, limit, broken in _limits(f"{name}.value", kind.valueType, text):
            yield path, limit, of_any(F.map_values, broken)
        text.skip(">")
    else:
        written = text.atom()
        if limited := _LIMITED.fullmatch(written):
            most = int(limited[1])
            yield name, written, lambda column: F.char_length(column) > most


def _of_field(name: str, broken: _Broken) -> _Broken:
    return lambda column: broken(column.getField(name))

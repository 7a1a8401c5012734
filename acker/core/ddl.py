"""Checks of the names and types in a schema's DDL, without Spark.

Spark alone parses schemas. A part that this module does not understand is left to Spark, so no type that
Spark takes is refused. A name that Spark takes is refused where this project reserves it.
"""

import re
from collections.abc import Iterator
from itertools import accumulate, pairwise

from acker.core.authors import place
from acker.core.errors import SettingsError
from acker.core.names import did_you_mean, not_storable

TYPES = (
    *("string", "bigint", "int", "integer", "long", "double", "boolean", "date", "timestamp", "decimal"),
    *("array", "map", "struct", "binary", "float", "real", "smallint", "short", "tinyint", "byte"),
    *("timestamp_ntz", "timestamp_ltz", "char", "character", "varchar", "dec", "numeric", "interval"),
    *("variant", "void", "time", "geometry", "geography"),
)
_TOKEN = re.compile(r"\s*(`(?:[^`]|``)*`|'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.)*\"|\w+|.)", re.DOTALL)
_DECIMALS = ("decimal", "dec", "numeric")
_DIGITS = 38  # of a decimal
_MARKS = {"(": 1, "<": 1, ")": -1, ">": -1}


def check_types(which: str, ddl: str) -> None:
    """Refuse a schema with a fault in its types or its form that can be seen without Spark.

    A fault is a type that Spark does not have, a column without a type, a decimal with too many digits, an
    open bracket, a semicolon, or a character that no table can store.

    Args:
        which: the name of the schema in errors.

    Raises:
        SettingsError: the schema has a fault. The error names it, with the column and the type at fault.
    """
    if strange := not_storable(ddl):
        raise SettingsError(f"{which} has in it {strange}{place()}. Leave it out.")
    tokens = _TOKEN.findall(ddl)
    parts = [*_parted(tokens)]
    if open_ := _left_open(tokens):
        raise SettingsError(f"{which} leaves {open_} open{place()}. Close it.")
    if ";" in tokens:
        raise SettingsError(f"{which} has a semicolon{place()}. Put commas between its columns.")
    for part in parts:
        if len(part) == 1 and not (len(parts) == 1 and part[0].lower() in TYPES):
            raise SettingsError(
                f"{which} gives {part[0]} no type{place()}. Write one behind the name, as in "
                f'"{part[0]} string".'
            )
    for kind, bracket, precision in zip(tokens, tokens[1:], tokens[2:], strict=False):
        is_decimal = kind.lower() in _DECIMALS and bracket == "(" and precision.isdecimal()
        if is_decimal and int(precision) > _DIGITS:
            raise SettingsError(
                f"{which} has a decimal of {precision} digits{place()}. Spark has {_DIGITS} at most."
            )
    for column, kind in _fields(tokens):
        if kind.lower() not in TYPES:
            raise SettingsError(
                f"{which} gives {column} the type {kind}, which Spark does not have{place()}. "
                f"Take one such as string, bigint or double.{did_you_mean(kind.lower(), TYPES)}"
            )


def _left_open(tokens: list[str]) -> str | None:
    """The last bracket that nothing closes; None where there is none."""
    waiting: list[str] = []
    for token in tokens:
        if _MARKS.get(token) == 1:
            waiting.append(token)
        elif token in _MARKS and waiting:
            waiting.pop()
    return waiting[-1] if waiting else None


def columns_in(ddl: str) -> dict[str, str]:
    """Column -> the first word of its type, in lower case, of a schema's own columns in their order."""
    found = {}
    for part in _parted(_TOKEN.findall(ddl)):
        rest = part[2:] if part[1:2] == [":"] else part[1:]
        if rest:
            found[part[0].strip("`").replace("``", "`")] = rest[0].lower()
    return found


def check_names(which: str, ddl: str) -> None:
    """Refuse a schema with a column that has a reserved name, or with two columns or fields of one name.

    Args:
        which: the name of the schema in errors.

    Raises:
        SettingsError: naming the column.
    """
    tokens = _TOKEN.findall(ddl)
    for column in _names(tokens):
        if column.startswith("_") or column.lower() == "anchor":
            raise SettingsError(
                f"{which} has {column}{place()}: `anchor` and names that begin with an underscore are "
                "reserved; rename it."
            )
    for part in (tokens, *_structs(tokens)):
        seen = set()
        for name in _names(part):
            if name.lower() in seen:
                raise SettingsError(f"{which} has {name} twice{place()}. Rename or drop one.")
            seen.add(name.lower())


def check_schema(which: str, ddl: str) -> None:
    """Refuse a schema with types or names that no stream can have.

    Args:
        which: the name of the schema in errors.

    Raises:
        SettingsError: as `check_types` and `check_names` raise it.
    """
    check_types(which, ddl)
    check_names(which, ddl)


def _names(tokens: list[str]) -> list[str]:
    """The names of the columns of a schema, or of the fields of a struct."""
    return [part[0].strip("`") for part in _parted(tokens) if len(part) > 1 and part[1] != "<"]


def _structs(tokens: list[str]) -> Iterator[list[str]]:
    """The part between the angle brackets of each struct, those within others included."""
    for start, (kind, bracket) in enumerate(pairwise(tokens), start=2):
        if kind.lower() == "struct" and bracket == "<":
            depths = accumulate((_MARKS.get(token, 0) for token in tokens[start:]), initial=1)
            yield tokens[start : start + [*depths].index(0) - 1]


def _fields(tokens: list[str]) -> Iterator[tuple[str, str]]:
    """Column -> the first word of its type, of all columns and of the fields of structs."""
    for part in _parted(tokens):
        name, rest = part[0], part[2:] if part[1:2] == [":"] else part[1:]
        if rest and rest[0].isidentifier():
            yield name, rest[0]
            yield from _inner(name, rest)


def _inner(name: str, kind: list[str]) -> Iterator[tuple[str, str]]:
    """As `_fields`, of the part between the angle brackets of a type."""
    if kind[1:2] != ["<"] or ">" not in kind:
        return
    within = kind[2 : len(kind) - kind[::-1].index(">") - 1]
    if kind[0].lower() == "struct":
        yield from _fields(within)
        return
    for part in _parted(within):
        if part[0].isidentifier():
            yield name, part[0]
            yield from _inner(name, part)


def _parted(tokens: list[str]) -> Iterator[list[str]]:
    """The parts of a schema between commas that are within no bracket."""
    part: list[str] = []
    depth = 0
    for token in tokens:
        depth += _MARKS.get(token, 0)
        if token == "," and not depth:
            if part:
                yield part
            part = []
        else:
            part.append(token)
    if part:
        yield part

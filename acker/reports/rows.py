"""Rows of Delta tables as people read them, whatever their types: numbers and texts."""

import json
from typing import Any

import pyarrow as pa

LONGEST = 1_000  # characters of a value

Value = str | int | float | bool | None


def plain_rows(found: pa.Table) -> list[dict[str, Value]]:
    """The rows of a table, each as column -> value.

    If Python cannot hold a value of a column, all values of the column are `?`. Long texts are cut to
    `LONGEST` characters.
    """
    columns = [[_plain(value) for value in _readable(column)] for column in found.columns]
    return [dict(zip(found.column_names, row, strict=True)) for row in zip(*columns, strict=True)]


def _readable(column: pa.ChunkedArray) -> list[Any]:
    """A column's values; times as texts, for which PyArrow would import pandas."""
    try:
        if pa.types.is_temporal(column.type):
            column = column.cast(pa.string())
        return list(column.to_pylist())
    except (pa.ArrowException, ValueError, OverflowError):
        return ["?"] * len(column)


def _plain(value: Any) -> Value:
    if value is None or isinstance(value, bool | int | float):
        return value
    text = value if isinstance(value, str) else _text(value)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"


def _text(value: Any) -> str:
    if isinstance(value, list | dict):
        return json.dumps(value, default=str, ensure_ascii=False)
    return str(value)

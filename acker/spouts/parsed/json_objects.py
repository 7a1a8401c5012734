"""JSON objects as rows: one object a text, whose fields are values of Spark's types exactly, or a misfit.

Python's decoder reads text by text. Arrow, which is faster, reads a whole batch first, and its result counts
only where it cannot differ. Pickled by value, as `acker.spouts.parsed.texts` is.
"""

import sys
from collections.abc import Sequence
from datetime import tzinfo
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import json as arrow_json
from pyspark import cloudpickle
from pyspark.sql.types import DateType, TimestampNTZType, TimestampType

from acker.spouts.parsed.json_values import decoded, json_decoder, struct_reader
from acker.spouts.parsed.texts import Field, Misfit, lines_of, read_at_once

_TIMES = (DateType, TimestampType, TimestampNTZType)
_LARGEST_BYTES = 1 << 30  # of texts that Arrow is given at once
_DEEPEST = 100  # brackets of a text that Arrow is given
# What cannot follow a brace within one object, in RE2. Nor does Arrow live through `{} null`.
_FURTHER = r"\}[ \t\r]*[^ \t\r,}\]]"
# Numbers that are too long for Arrow's decimals, of which it does not say so.
_LONG = r'[0-9.]{39}|[:,\[][ \t\r]*"?[+-]?[0-9.]+[eE][+-]?[0-9]+"?[ \t\r]*[,}\]]'
_DIGITS = 76  # of those decimals
_TINY = (b"e-", b"E-", b"0" * 30)  # every number that becomes 0 and is not has one of these
_NOT_ALIKE = (b"\0", b"NaN", b"Inf")  # Arrow knows other infinities than Python, and ends at a zero byte

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]


class JsonObjects:
    """Reads texts as objects.

    Args:
        fields: the fields of the objects; other keys are passed over.
        zone: the zone of a timestamp that names none.
    """

    form = "JSON"
    is_slow = True

    def __init__(self, fields: Sequence[Field], zone: tzinfo) -> None:
        self.fields = fields
        self.zone = zone

    def at_once(self, texts: pa.Array) -> list[pa.Array] | None:
        """The columns of all texts; None where one of the texts may be bad, or give other values alone."""
        kinds = [(field.name, _of_arrow(field.arrow)) for field in self.fields]
        if any(kind is None for _, kind in kinds) or texts.nbytes > _LARGEST_BYTES or not _are_flat(texts):
            return None
        raw = lines_of(texts).to_pybytes()
        if any(part in raw for part in _NOT_ALIKE):
            return None
        if any(_has_decimals(kind) for _, kind in kinds) and _fits_any(texts, _LONG):
            return None
        table = arrow_json.read_json(
            pa.BufferReader(raw),
            arrow_json.ReadOptions(use_threads=False, block_size=_LARGEST_BYTES),
            arrow_json.ParseOptions(explicit_schema=pa.schema(kinds), unexpected_field_behavior="ignore"),
        )
        if table.num_rows != len(texts):
            return None
        tiny = any(part in raw for part in _TINY)
        columns = []
        for field in self.fields:
            column = pa.concat_arrays(table[field.name].chunks)
            if isinstance(field.kind, _TIMES):
                column = read_at_once(column, field, self.zone)
            if column is None or _may_be_another(column, tiny):
                return None
            columns.append(column.cast(field.arrow))
        return columns

    def one_by_one(self, texts: Sequence[str]) -> tuple[list[pa.Array], list[Misfit | None]]:
        """The columns, with nulls where a text is bad, and the misfit of each text, None where it is good."""
        read = struct_reader([(field.name, field.kind) for field in self.fields], self.zone)
        decoder, nothing = json_decoder(), dict.fromkeys(field.name for field in self.fields)
        rows: list[dict[str, Any]] = []
        wrong: list[Misfit | None] = []
        for text in texts:
            try:
                rows.append(read(decoded(decoder, text)))
                wrong.append(None)
            except Misfit as misfit:
                rows.append(nothing)
                wrong.append(misfit)
            except RecursionError:
                rows.append(nothing)
                wrong.append(Misfit("it is nested too deeply"))
        return [pa.array([row[field.name] for row in rows], field.arrow) for field in self.fields], wrong


def _of_arrow(kind: pa.DataType, nested: bool = False) -> pa.DataType | None:
    """The type that Arrow's reader is asked for; None where it has none that can be relied on."""
    if pa.types.is_struct(kind):
        within = [(field.name, _of_arrow(field.type, nested=True)) for field in kind]
        return None if any(each is None for _, each in within) else pa.struct(within)
    if pa.types.is_list(kind):
        element = _of_arrow(kind.value_type, nested=True)
        return None if element is None else pa.list_(pa.field(kind.value_field.name, element))
    if pa.types.is_temporal(kind):
        return None if nested else pa.string()
    if pa.types.is_decimal(kind):
        return pa.decimal256(_DIGITS, kind.scale)
    return None if pa.types.is_map(kind) or pa.types.is_binary(kind) else kind


def _has_decimals(kind: pa.DataType) -> bool:
    within = [kind.field(place).type for place in range(kind.num_fields)]
    return pa.types.is_decimal(kind) or any(map(_has_decimals, within))


def _are_flat(texts: pa.Array) -> bool:
    """Whether each text looks like one object that is not nested deeply, so that Arrow finds as many."""
    ends = pc.and_(pc.starts_with(texts, "{"), pc.ends_with(texts, "}"))
    brackets = pc.add(pc.count_substring(texts, "{"), pc.count_substring(texts, "["))
    return pc.all(ends).as_py() and pc.max(brackets).as_py() <= _DEEPEST and not _fits_any(texts, _FURTHER)


def _fits_any(texts: pa.Array, pattern: str) -> bool:
    found: bool = pc.any(pc.match_substring_regex(texts, pattern)).as_py()
    return found


def _may_be_another(column: pa.Array, tiny: bool) -> bool:
    """Whether a number in a column may have been rounded to 0 or to infinity."""
    if pa.types.is_floating(column.type):
        finite = pc.all(pc.is_finite(column)).as_py() is not False
        return not finite or (tiny and pc.any(pc.equal(column, 0)).as_py() is True)
    if pa.types.is_struct(column.type) or pa.types.is_list(column.type):
        parts = column.flatten()
        return any(_may_be_another(part, tiny) for part in (parts if isinstance(parts, list) else [parts]))
    return False

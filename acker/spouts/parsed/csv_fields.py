"""Rows of CSV: one row a text, whose fields are values of Spark's types exactly, or a misfit.

Pickled by value, as `acker.spouts.parsed.texts` is.
"""

import csv
import re
import sys
from collections.abc import Sequence
from datetime import tzinfo
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv as arrow_csv
from pyspark import cloudpickle
from pyspark.sql.types import BinaryType

from acker.spouts.parsed.texts import NO_VALUE, Field, Misfit, few_texts, lines_of, read_at_once, text_reader

_LARGEST_BYTES = 1 << 30  # of texts that Arrow is given at once
_HIDDEN = {'"': "\ufdd2", "\\": "\ufdd3"}  # what a backslash escapes -> its mark
_SHOWN = {ord(mark): character for character, mark in _HIDDEN.items()}

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]


class CsvFields:
    """Reads texts as rows. An empty field is null, in quotes or not.

    Args:
        fields: the fields of a row, in their order.
        zone: the zone of a timestamp that names none.
        delimiter: the character between fields.
        null: the text of a field that is null, as an empty field is.
        escapes: whether a backslash makes the quote or backslash after it a part of the field.
    """

    form = "CSV"
    is_slow = False

    def __init__(
        self,
        fields: Sequence[Field],
        zone: tzinfo,
        delimiter: str,
        null: str = "",
        escapes: bool = False,
    ) -> None:
        self.fields = fields
        self.zone = zone
        self.delimiter = delimiter
        self.null = null
        self.escapes = escapes

    def at_once(self, texts: pa.Array) -> list[pa.Array] | None:
        """The columns of all texts; None where a text has quotes or may be bad."""
        unusual = r'["\r\n\x{FEFF}\x00' + (r"\\]" if self.escapes else "]")
        if texts.nbytes >= _LARGEST_BYTES or pc.any(pc.match_substring_regex(texts, unusual)).as_py():
            return None
        names = [str(place) for place in range(len(self.fields))]
        table = arrow_csv.read_csv(
            pa.BufferReader(lines_of(texts)),
            arrow_csv.ReadOptions(use_threads=False, block_size=_LARGEST_BYTES, column_names=names),
            arrow_csv.ParseOptions(delimiter=self.delimiter, quote_char=False, ignore_empty_lines=False),
            arrow_csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string())),
        )
        if table.num_rows != len(texts):
            return None
        columns = []
        for field, column in zip(self.fields, table.columns, strict=True):
            values = self._converted(self._with_nulls(pa.concat_arrays(column.chunks)), field)
            if values is None:
                return None
            columns.append(values)
        return columns

    def one_by_one(self, texts: Sequence[str]) -> tuple[list[pa.Array], list[Misfit | None]]:
        """The columns, with nulls where a text is bad, and the misfit of each text, None where it is good."""
        wrong: list[Misfit | None] = [None] * len(texts)
        rows: list[Sequence[str | None]] = []
        limit = csv.field_size_limit(sys.maxsize)
        try:
            for place, text in enumerate(texts):
                try:
                    rows.append(self._split(text))
                except Misfit as misfit:
                    rows.append([None] * len(self.fields))
                    wrong[place] = misfit
        finally:
            csv.field_size_limit(limit)
        columns = []
        for field, column in zip(self.fields, zip(*rows, strict=True), strict=True):
            filled = self._with_nulls(pa.array(column, pa.string()))
            values = self._converted(filled, field)
            columns.append(self._column(filled.to_pylist(), field, wrong) if values is None else values)
        return columns, wrong

    def _split(self, text: str) -> list[str]:
        """The fields of a row.

        Raises:
            Misfit: the text is no row, or has another number of fields.
        """
        hidden = self._hidden(text)
        try:
            (row,) = csv.reader([hidden], delimiter=self.delimiter, strict=True)
        except (csv.Error, ValueError):
            raise Misfit(_carriage_return(text)) from None
        if len(row) != len(self.fields):
            raise Misfit(f"fields: {len(row)} instead of {len(self.fields)}")
        return row if hidden == text else [field.translate(_SHOWN) for field in row]

    def _hidden(self, text: str) -> str:
        """A row with marks in the place of the characters that backslashes escape, which then part no fields.

        Raises:
            Misfit: the row has such marks itself.
        """
        if not self.escapes or "\\" not in text:
            return text
        if any(mark in text for mark in _HIDDEN.values()):
            raise Misfit("a noncharacter of Unicode, U+FDD2 or U+FDD3")
        return re.sub(r'\\(["\\])', lambda escaped: _HIDDEN[escaped[1]], text)

    def _with_nulls(self, texts: pa.Array) -> pa.Array:
        return pc.if_else(pc.is_in(texts, few_texts("", self.null)), pa.nulls(1, pa.string())[0], texts)

    def _converted(self, texts: pa.Array, field: Field) -> pa.Array | None:
        if isinstance(field.kind, BinaryType):
            return texts.cast(field.arrow)
        return read_at_once(texts, field, self.zone)

    def _column(self, texts: Sequence[str | None], field: Field, wrong: list[Misfit | None]) -> pa.Array:
        """The values of a column. A text that is no value is noted in `wrong`, and its value is null."""
        read = text_reader(field.kind, self.zone)
        values: list[Any] = []
        for place, text in enumerate(texts):
            try:
                values.append(None if text is None else read(text))
            except NO_VALUE:
                values.append(None)
                wrong[place] = wrong[place] or Misfit.of(f'"{text}"', field.kind).below(field.name)
        return pa.array(values, field.arrow)


def _carriage_return(text: str) -> str:
    return "a carriage return within the line, which a line feed ends" if "\r" in text else ""

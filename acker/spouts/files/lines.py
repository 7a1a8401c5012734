"""Lines of text files as messages: as they are, as JSON objects, or as rows of CSV.

A message's offset is the number of its line in the file, from 1. A line that cannot be read is a message that
fails, or a rejected one if it is CSV, with the reason.
"""

from collections.abc import Callable

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from acker.core.events import Kind
from acker.spark.reasons import shown
from acker.spouts.parsed.csv_fields import CsvFields
from acker.spouts.parsed.workers import Parser, parsed

_SHOWN = 200  # characters of a line that a reason shows
# Marks: of an end of line within quotes, on both sides; of U+0000 itself, of two quotes beside each other,
# and of a quote and a backslash that are escaped, as long as marks are in.
_OPEN, _NUL, _DOUBLED, _QUOTE, _BACKSLASH = "\0(", "\0)", "\0d", "\0q", "\0b"
_MEANT = {_QUOTE: '\\"', _BACKSLASH: "\\\\", _DOUBLED: '""', _NUL: "\0"}
_SINCE = r"^\x00\((\d+)\("  # begins a line: the mark, with how many lines before it the quote was opened
_BYTE_ORDER_MARK = "\ufeff"
_BROKEN = "a row must be one line, and here a quoted field goes on in another or is not closed; line "


def split(whole: DataFrame, marked: Callable[[Column], Column] = lambda text: text) -> DataFrame:
    """The lines of files: `_source_offset`, `value`, without the line feed, and the files' other columns.

    Args:
        whole: files, with `value`, all of the file's text, and columns that each of its lines gets.
        marked: the function that puts marks into a text before it is split.
    """
    of_file = [column for column in whole.columns if column != "value"]
    numbered = whole.select(*of_file, F.posexplode(_lines(marked)).alias("_line", "value"))
    return numbered.select(*of_file, (F.col("_line") + 1).cast("bigint").alias("_source_offset"), "value")


def text_rows(lines: DataFrame) -> DataFrame:
    """A message for each line: `value`, without its end of line.

    Args:
        lines: as `split` gives them.
    """
    of_line = [column for column in lines.columns if column != "value"]
    lines = lines.select(
        *of_line,
        F.when(F.endswith("value", F.lit("\r")), F.expr("left(value, length(value) - 1)"))
        .otherwise(F.col("value"))
        .alias("value"),
    )
    valid = F.is_valid_utf8("value")
    return lines.select(
        *of_line,
        F.when(~valid, Kind.FAIL.value).alias("_kind"),
        F.when(~valid, "not valid UTF-8").alias("_error"),
        F.make_valid_utf8("value").alias("value"),
    )


def json_rows(lines: DataFrame, parser: Parser) -> DataFrame:
    """A message for each line that is not blank: the fields of its JSON object.

    Args:
        lines: as `split` gives them.
    """
    return _parsed(text_rows(lines), parser, blank=" \t\r")


def csv_lines(whole: DataFrame, parser: CsvFields, header: bool) -> DataFrame:
    """The lines of files of CSV as `split` gives them, with `_wrong`, why all lines of a file fail, or null.

    A line that a quoted field goes across has marks, which `csv_rows` looks for.

    Args:
        header: whether the first line of each file must have the names of the fields. If it has other names,
            or is a row, all lines of the file fail, the first one too.
    """
    text = F.ltrim(F.col("value"), F.lit(_BYTE_ORDER_MARK))
    wrong = _wrong_header(F.element_at(F.split(text, "\r?\n", 2), 1), parser) if header else F.lit(None)
    for mark in (_NUL, _BACKSLASH, _QUOTE) if parser.escapes else (_NUL,):
        text = F.replace(text, F.lit(_MEANT[mark]), F.lit(mark))
    return split(whole.withColumns({"value": text, "_wrong": wrong.cast("string")}), _with_open_quotes)


def csv_rows(lines: DataFrame, parser: CsvFields, header: bool) -> DataFrame:
    """A message for each line that is neither blank nor the header: the fields of its row.

    Args:
        lines: as `csv_lines` gives them.
        header: as of `csv_lines`.
    """
    rows = text_rows(lines)
    if header:
        rows = rows.where((F.col("_source_offset") > 1) | F.col("_wrong").isNotNull())
    line = F.replace(F.regexp_replace("value", _SINCE, ""), F.lit(_OPEN), F.lit(""))
    for mark, meant in _MEANT.items():
        line = F.replace(line, F.lit(mark), F.lit(meant))
    since = F.nullif(F.regexp_extract("value", _SINCE, 1), F.lit("")).cast("bigint")
    opened = F.col("_source_offset") - F.coalesce(since, F.lit(0))
    told = F.concat(F.lit(_BROKEN), opened.cast("string"), F.lit(" opens it: "), shown(line, _SHOWN))
    broken = F.when(F.contains("value", F.lit(_OPEN)), told)
    value = F.when(F.contains("value", F.lit("\0")), line).otherwise(F.col("value"))
    rows = rows.withColumns({"_error": F.coalesce("_error", "_wrong", broken), "value": value})
    return _parsed(rows, parser, blank="" if parser.delimiter == " " else " ", kind=Kind.REJECT)


def _wrong_header(first: Column, parser: CsvFields) -> Column:
    """Why the first line of a file is no header, or null."""
    names = [field.name for field in parser.fields]
    expected = parser.delimiter.join(names)
    why = F.concat(F.lit(f"the header is not {expected} but "), shown(first, _SHOWN))
    return F.when(~_is_header(first, names, parser.delimiter), why)


def _is_header(first: Column, names: list[str], delimiter: str) -> Column:
    """Whether a line has these names, each in quotes or not, in upper or lower case.

    The line is split at each delimiter, also within quotes, and so are the names. A regular expression for
    the whole line would need a stack of Java's that grows with the number of names.
    """
    in_quotes = {name: ('"' + name.replace('"', '""') + '"').split(delimiter) for name in names}
    bare = {name: in_quotes[name] if set(name) & {delimiter, '"'} else [name] for name in names}
    wanted = [[part for name in names for part in each[name]] for each in (bare, in_quotes)]
    found = F.split(first, f"\\Q{delimiter}\\E")
    as_bare, as_quoted = (
        F.zip_with(
            found, F.split(F.lit("\n".join(parts)), "\n"), lambda one, other: _folded(one) == _folded(other)
        )
        for parts in wanted
    )
    fits = F.zip_with(as_bare, as_quoted, lambda one, other: one | other)
    return (F.size(found) == len(wanted[0])) & F.forall(fits, lambda fit: fit)


def _folded(text: Column) -> Column:
    """A text in one case. Texts that differ in nothing but case are the same text in it."""
    return F.lower(F.upper(text))


def _with_open_quotes(text: Column) -> Column:
    """The text of a CSV file, with marks where a quoted field goes on in another line or is not closed.

    An end of line within quotes has a mark before it and a mark after it. The mark after it begins a line,
    and says how many lines before that line the quote was opened. A text with an open quote ends with a mark.

    The text is split at its quotes, so every second part is within quotes. Two quotes beside each other may
    stand for one quote within a quoted field. So a mark takes their place before the split.
    """

    def across(part: Column) -> Column:
        lines = F.transform(
            F.split(part, "\n"),
            lambda line, since: F.when(since == 0, line).otherwise(
                F.concat(F.lit(_OPEN), since.cast("string"), F.lit("("), line)
            ),
        )
        return F.array_join(lines, f"{_OPEN}\n")

    def marked(part: Column, place: Column) -> Column:
        is_across = (place % 2 == 1) & F.contains(part, F.lit("\n"))
        return F.when(is_across, across(part)).otherwise(part)

    parts = F.transform(F.split(F.replace(text, F.lit('""'), F.lit(_DOUBLED)), '"'), marked)
    at_end = F.when(F.size(parts) % 2 == 1, "").otherwise(_OPEN)
    return F.when(F.contains(text, F.lit('"')), F.concat(F.array_join(parts, '"'), at_end)).otherwise(text)


def _parsed(rows: DataFrame, parser: Parser, blank: str, kind: Kind = Kind.FAIL) -> DataFrame:
    """Messages with the fields of their lines.

    Args:
        blank: the characters of which a blank line consists, which is no message.
        kind: the kind of a line that cannot be read.
    """
    rows = rows.where(F.trim("value", F.lit(blank)) != "" if blank else F.col("value") != "")
    text = F.when(F.col("_error").isNull(), F.col("value")).alias("value")
    made = parsed(rows.select("_source_partition", "_source_offset", "_error", text), parser)
    why = F.coalesce("_error", "_why")
    failed = F.when(why.isNotNull(), kind.value).alias("_kind")
    return made.select("_source_partition", "_source_offset", failed, why.alias("_error"), "_fields.*")


def _lines(marked: Callable[[Column], Column]) -> Column:
    """The lines of `value`, each with its bytes unchanged.

    Spark splits a string as Java does, which puts U+FFFD where bytes are not UTF-8. In Latin-1 every byte is
    a character. So a file that is not UTF-8 is split as Latin-1.
    """
    latin = F.split(marked(F.decode(F.col("value").cast("binary"), "ISO-8859-1")), "\n")
    as_they_were = F.transform(latin, lambda line: F.encode(line, "ISO-8859-1").cast("string"))
    return F.when(F.is_valid_utf8("value"), F.split(marked(F.col("value")), "\n")).otherwise(as_they_were)

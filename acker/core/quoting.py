"""Quoting of text from outside for SQL, terminals and pages, so that it is always taken as text.

Names of columns, files and messages, reasons of failures and entries of forms may hold anything.
"""

import re

from acker.core.errors import SettingsError


def sql_text(value: str) -> str:
    """A text as a string literal of DataFusion, in which only quotes are special."""
    return "'" + value.replace("'", "''") + "'"


def sql_name(name: str) -> str:
    """A quoted name for Spark: of a column, in which dots name no fields, or of a table by its path."""
    return "`" + name.replace("`", "``") + "`"


def column_name(name: str) -> str:
    """A column's name in quotes for DataFusion, which takes one without quotes for lower case."""
    return '"' + name.replace('"', '""') + '"'


def printable(text: str, keep: str = "") -> str:
    r"""The text with each unprintable character, which a terminal might obey, as an escape such as \x1b.

    Args:
        keep: unprintable characters that stay as they are, such as the ends of lines.
    """
    return "".join(c if c.isprintable() or c in keep else ascii(c)[1:-1] for c in text)


def markdown_code(value: object) -> str:
    """A value as code within a line of Markdown, where it is no link, no picture and no line of its own."""
    text = printable(str(value))
    fence = "`" * (1 + max(map(len, re.findall("`+", text)), default=0))
    return f"{fence}{text}{fence}" if len(fence) == 1 else f"{fence} {text} {fence}"


def check_text(what: str, text: str) -> None:
    """Refuse a text that no table can hold, such as an argument whose bytes are not UTF-8.

    Args:
        what: the name of the text, with which the error begins.

    Raises:
        SettingsError: with the text.
    """
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise SettingsError(f"{what} {text!r:.200} is not valid UTF-8; write it as text.") from error

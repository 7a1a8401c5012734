"""Conditions that people write on the columns of a spout's messages, looked up in its stream without Spark.

The text comes from a command line or a form. It must be one condition, of terms that `terms` knows. A text
that could be another statement, another query, or more than the process can hold is refused before it runs.
"""

import re

import polars as pl

from acker.core.errors import SettingsError, StoreError
from acker.core.quoting import check_text, column_name
from acker.core.snapshot.snapshot import Snapshot
from acker.core.store.schemas import stream
from acker.core.store.tables import query_table, sentence_of
from acker.operations.selection.terms import is_whole, refused_term

MOST_CHARACTERS = 2_000  # DataFusion ends the process on some thousand terms

_PAGE = "docs/how-to/backfill.md#conditions-on-the-messages-own-columns"
_NONE = pl.DataFrame(schema={"source_partition": pl.String, "source_offset": pl.Int64, "holds": pl.Boolean})
_POSITION = ("_source_partition", "_source_offset")
# Of the engine's own texts: wrappers before the cause, and the wish after it to be told of bugs.
_WRAPPED = re.compile(
    r"^(?:External error: |Execution error: |Arrow error: |Optimizer rule '\w+' failed caused by )+"
)
_BUG = re.compile(r"\s*This issue was likely caused by a bug .*", re.DOTALL)


def check_condition(text: str) -> None:
    """Refuse a text that is not one whole condition, or that has a term which no condition may have.

    Raises:
        SettingsError: the text is refused; the error names the fault.
    """
    check_text("The condition", text)
    if len(text) > MOST_CHARACTERS:
        raise SettingsError(
            f"The condition has {len(text):,} characters, and {MOST_CHARACTERS:,} may be; replay in several "
            "parts, or choose by partition, position or time."
        )
    refused = refused_term(text)
    if refused and refused.startswith("the function"):
        raise SettingsError(
            f"The condition {text!r:.200} has {refused}, which no condition may call. See {_PAGE} for those "
            "that it may."
        )
    if refused:
        raise SettingsError(
            f"The condition {text!r:.200} has {refused}, which no condition on a message's columns needs. "
            "Write one such as \"day = '2026-01-31' AND amount > 10\"."
        )
    if not is_whole(text):
        raise SettingsError(
            f"The condition {text!r:.200} is not whole: close every bracket and every quote, and no others."
        )


def messages_where(snapshot: Snapshot, spout: str, condition: str) -> pl.DataFrame:
    """Columns source_partition, source_offset and `holds` (bool) of each message in a spout's stream.

    `holds` says whether the condition is true of a row of the message; a null is not true. Messages whose
    rows were trimmed from the stream are missing.

    Args:
        condition: SQL on the columns that the spout emitted, and on `_source_partition` and `_source_offset`.
            Names in upper case are in double quotes.

    Raises:
        SettingsError: the text is no condition, or not one on these columns.
    """
    check_condition(condition)
    return looked_up(snapshot, spout, condition)


def columns_of_spout(snapshot: Snapshot, spout: str) -> list[str]:
    """The columns that a spout has emitted; none before it has run."""
    table = snapshot.open(stream(spout))
    fields = table.schema().fields if table is not None else []
    return [field.name for field in fields if not field.name.startswith("_")]


def looked_up(snapshot: Snapshot, spout: str, condition: str) -> pl.DataFrame:
    """The same columns as `messages_where`, for a condition that is safe or was checked.

    Raises:
        SettingsError: the condition is not one on the columns of the spout.
    """
    table = snapshot.open(stream(spout))
    if table is None:
        return _NONE
    columns = columns_of_spout(snapshot, spout)
    names = ", ".join(map(column_name, (*_POSITION, *columns)))
    partition, offset = map(column_name, _POSITION)
    try:
        rows = query_table(
            f"SELECT {partition} AS source_partition, {offset} AS source_offset, "
            f"bool_or(coalesce(({condition}\n), false)) AS holds "
            f"FROM (SELECT {names} FROM stream) GROUP BY {partition}, {offset}",
            stream=table,
        )
    except StoreError as error:
        cause = error.__cause__
        why = (
            _BUG.sub(".", _WRAPPED.sub("", sentence_of(cause)))
            if isinstance(cause, Exception)
            else str(error)
        )
        raise SettingsError(
            f"The condition {condition!r:.200} cannot be looked up: {why} The columns of {spout} are "
            f"{', '.join(columns) or 'none'}."
        ) from error
    return pl.DataFrame(rows).cast(_NONE.schema)

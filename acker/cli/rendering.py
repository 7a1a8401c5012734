"""Output of the commands for people: tables and sentences."""

import os
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from acker.core.names import called
from acker.core.quoting import printable
from acker.reports.sources import amounts, reasons

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from acker.batches.holds import Hold
    from acker.core.messages import MessageId
    from acker.core.snapshot.verdict import Audit, Compared
    from acker.operations.maintenance.forget import Forgotten
    from acker.operations.replay import DryRun
    from acker.reports.failures import Failures
    from acker.reports.published import PublishedRows
    from acker.reports.source_rows import SourceRow
    from acker.reports.trace import Entry
    from acker.runtime.manifest import Manifest

_LISTED = 10  # findings printed; --json has the rest
_FURTHEST = 3  # partitions that are behind and are named; --json has the rest
_LONGEST = 200  # characters of a source's value
_WIDEST = 10_000  # columns of a line that nobody looks at in a terminal
_COLOURS = {
    "acked": "green",
    "published": "green",
    "dead_letter": "red",
    "lost": "red",
    "failed by": "yellow",
    "rejected by": "red",
}


def _text(value: str, style: str = "", keep: str = "") -> Text:
    """A text of any author, which is shown neither as markup nor as a command to the terminal.

    Args:
        keep: unprintable characters that stay as they are, such as the ends of lines.
    """
    return Text(printable(value, keep), style=style)


def _table(*columns: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD)
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def _print(table: Table) -> None:
    """Print a table as wide as the terminal, or as it needs to be in a file or pipe."""
    is_narrow = sys.stdout.isatty() or "COLUMNS" in os.environ
    Console(width=None if is_narrow else _WIDEST).print(table)


def pairs(values: dict[str, Any]) -> None:
    """Print names and numbers on one line."""
    line(", ".join(f"{name} {value:,}" for name, value in values.items()))


def line(text: str, style: str = "") -> None:
    """Print one sentence, which a terminal wraps and a file has on one line."""
    Console().print(_text(text, style), soft_wrap=True)


def failed(topology: str, found: "Failures") -> None:
    """Print the commonest failures of a run's folds, if there are any."""
    for each in found.commonest:
        outcome = {"retrying": "tried again", "dead_letter": "given up"}.get(each.state, each.state)
        where = f" in {each.component}" if each.component else ""
        line(f"{each.count:,} failed{where}, {outcome}: {each.reason} (such as {each.sample})")
    if found.kinds > len(found.commonest):
        line(f"{found.count:,} failed in all: `acker failures {called(topology)}` lists the reasons.")


def advice(sentences: "Sequence[str]") -> None:
    """Print sentences on likely mistakes, on standard error."""
    for each in sentences:
        Console(stderr=True).print(_text(f"Warning: {each}"), soft_wrap=True)


def left_out(by_spout: "Mapping[str, Mapping[str, int]]") -> None:
    """Print the counts of source data that are never read, by spout and reason, if there are any."""
    for spout, found in by_spout.items():
        line(f"{spout} leaves out: {reasons(found)}")


def changed(by_spout: "Mapping[str, object]") -> None:
    """Print the source data that have changed since they were read, by spout, if there are any."""
    for spout, found in by_spout.items():
        line(f"{spout}: changed since it was read: {found}", "red")


def held_back(found: "Sequence[Mapping[str, Any]]") -> None:
    """Print a sentence for each rich bolt that holds messages back, if there are any."""
    for each in found:
        line(each["says"])


def gone(by_spout: "Mapping[str, object]") -> None:
    """Print the source data that were read and are gone since, by spout, if there are any."""
    for spout, found in by_spout.items():
        line(f"{spout}: read, and no longer there: {found}")


def audit(result: "Audit", strict: bool = False) -> None:
    """Print an audit: the counts, the findings, and the verdict last.

    Args:
        strict: whether an audit fails as well that has not compared everything by values.
    """
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("messages")
    table.add_column("", justify="right")
    counted = ("emitted", "acked", "pending", "retrying", "dead_letter", "lost", "unexpected", "duplicated")
    for name in (*counted, "recovered", "unpublished"):
        value = getattr(result, name)
        is_wrong = name in ("lost", "unexpected", "duplicated") or (name == "unpublished" and result.overdue)
        bad = value and is_wrong
        table.add_row(name, _text(f"{value:,}", "red" if bad else ""))
    _print(table)
    for title, found in {"dead letters": result.dead_letters, **result.findings}.items():
        if not found:
            continue
        line(f"{title}:")
        for finding in found[:_LISTED]:
            line(f"  {finding.message}  {finding.why}")
        if len(found) > _LISTED:
            line(f"  … and {len(found) - _LISTED:,} more; --json lists them")
    for name, late in result.overdue.items():
        line(f"{name}: {late}", "red")
    left_out(result.left_out)
    changed(result.changed)
    gone(result.gone)
    for spout, why in result.unknown.items():
        line(f"{spout}: what is unread is unknown: {why}")
    for name, each in result.streams.items():
        line(_compared(name, each))
    if strict and result.passed and not result.vouches:
        line("verdict: fail, since not everything was compared by values (--strict)", "bold red")
    else:
        line(f"verdict: {result.verdict}", "bold green" if result.passed else "bold red")


def _compared(name: str, each: "Compared") -> str:
    """A sentence on how the published rows of a stream were compared."""
    numbers = {
        "compared by what their rows say": each.compared,
        "by the number of their rows": each.by_count,
        "not compared": each.not_compared,
    }
    said = ", ".join(f"{number:,} {how}" for how, number in numbers.items() if number) or "0 compared"
    return f"{name}: of its messages {said}" + "".join(f"; {why}" for why in each.why)


def status(result: dict[str, Any]) -> None:
    """Print where the components, the acker, the publishers and the sources of a topology stand."""
    line(f"{result['topology']} in {result['store']}")
    table = _table("component", "batches logged", "to take", "newest")
    for row in result["components"]:
        left = " (one held)" if row["held"] else " (one unfinished)" if row["unfinished"] else ""
        logged = f"{row['logged']:,}{left}"
        waiting = ", ".join(f"{n} of {name}" for name, n in row["waiting_batches"].items() if n)
        newest = f"{row['planned_at']:%Y-%m-%d %H:%M:%S}" if row["planned_at"] else "never"
        table.add_row(row["component"], logged, waiting or "-", newest)
    _print(table)
    for row in result["components"]:
        if row["held"]:
            line(row["held"]["says"], "red")
        if row["held_back"]:
            line(row["held_back"]["says"])
    states = ", ".join(f"{n:,} {state}" for state, n in sorted(result["states"].items())) or "no messages"
    folded = (
        f"fold {result['fold']} at {result['folded_at']:%Y-%m-%d %H:%M:%S}"
        if result["fold"]
        else "no fold yet"
    )
    line(f"acker: {folded}; attempts: {states}; due for replay: {result['due']:,}")
    most = result["max_pending"]
    for spout, number in result["in_flight"].items():
        if most is not None and number:
            full = "; it reads on as messages settle" if number >= most else ""
            line(f"{spout}: {number:,} messages in flight of {most:,} at most{full}", "red" if full else "")
    for row in result["published"]:
        line(f"{row['component']} is published to {row['to']} up to fold {row['fold']}")
    by_spout: dict[str, list[dict[str, Any]]] = {}
    for row in result["positions"]:
        by_spout.setdefault(row["spout"], []).append(row)
    for source in result["sources"]:
        spout = source["spout"]
        if spout in by_spout:
            line(f"{spout}: {_positions(by_spout[spout])}")
        line(f"{spout}: {_backlog(source)}")
        if source["changed"]:
            changed({spout: source["changed"]["says"]})
        if source["gone"]:
            gone({spout: source["gone"]["says"]})


def _backlog(source: dict[str, Any]) -> str:
    """The data of a source that are not planned yet, and those that are left out, in words."""
    if source["unknown"]:
        return f"what is unread is unknown: {source['unknown']}"
    said = f"{amounts(source['unread'])} unread" if source["unread"] else "nothing unread"
    if source["oldest"]:
        said += f", the oldest of {source['oldest']:%Y-%m-%d %H:%M:%S}"
    return f"{said}; left out: {reasons(source['left_out'])}" if source["left_out"] else said


def _positions(rows: list[dict[str, Any]]) -> str:
    """The positions of a spout's only partition, or how many partitions are behind, and the furthest ones."""
    if len(rows) == 1:
        end = "" if rows[0]["end"] is None else f" of {rows[0]['end']:,}"
        return f"emitted up to {rows[0]['emitted_upto']:,}{end}, committed up to {_committed(rows[0])}"
    behind = sorted((row for row in rows if row["behind"]), key=lambda row: -row["behind"])
    furthest = ", ".join(
        f"{row['source_partition']} ({_committed(row)} of {row['emitted_upto']:,})"
        for row in behind[:_FURTHEST]
    )
    counts = f"{len(rows):,} partitions, {len(behind):,} of them behind"
    return f"{counts}; furthest: {furthest}" if behind else counts


def _committed(row: dict[str, Any]) -> str:
    return "none" if row["committed_upto"] is None else f"{row['committed_upto']:,}"


def trace(message: str, entries: list["Entry"]) -> None:
    """Print the story of a message, the oldest entry first."""
    table = _table("time (UTC)", "try", "what", "who", "no.", "detail")
    for column in table.columns[:-1]:
        column.no_wrap = True
    for entry in entries:
        at = f"{entry.at:%Y-%m-%d %H:%M:%S}" if entry.at else "?"
        what = _text(entry.what, _COLOURS.get(entry.what, ""))
        who, detail = _text(entry.component), _text(entry.detail)
        table.add_row(at, str(entry.attempt), what, who, str(entry.batch), detail)
    line(message)
    _print(table)


def source_row(message: "MessageId", row: "SourceRow") -> None:
    """Print the row that the source holds of a message."""
    line(f"{message}: {_source(row)}")


def _source(row: "SourceRow") -> str:
    if row.missing is not None:
        return row.missing
    return ", ".join(f"{name}={_short(value)}" for name, value in row.values.items()) or "no columns"


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def failures(
    found: "Failures", samples: "Mapping[MessageId, SourceRow]", fold: int, held: "Sequence[Hold]" = ()
) -> None:
    """Print the held batches, and the commonest failures, each with the source row of one message.

    Args:
        samples: message -> the row that the source holds of it.
        fold: the newest fold, up to which failures are counted.
        held: the holds of the held batches.
    """
    for hold in held:
        line(f"{hold}. Its messages wait.", "red")
    if not found.commonest:
        line("No message fails." if held else "Nothing fails.")
        return
    table = _table("messages", "state", "component", "reason", "for example")
    table.columns[0].justify = "right"
    for each in found.commonest:
        state = _text(each.state, _COLOURS.get(each.state, "yellow"))
        example = _text(f"{each.sample}\n{_source(samples[each.sample])}", keep="\n")
        table.add_row(f"{each.count:,}", state, _text(each.component or "-"), _text(each.reason), example)
    _print(table)
    kinds = f"{len(found.commonest):,} of {found.kinds:,} kinds of failures"
    line(f"{kinds}, {found.count:,} messages in all, up to fold {fold}")


def dry_run(found: "DryRun") -> None:
    """Print the messages that a replay would emit, and their counts."""
    if found.messages:
        table = _table("message", "attempt", "state", "component", "reason")
        for each in found.messages:
            state = _text(each.state, _COLOURS.get(each.state, ""))
            cells = _text(each.component or "-"), _text(each.reason or "")
            table.add_row(_text(each.message), str(each.attempt), state, *cells)
        _print(table)
    if found.matched > len(found.messages):
        line(f"… and {found.matched - len(found.messages):,} more")
    for said in found.gone.sentences():
        line(said, "red")
    pairs(found.counts)


def forgotten(found: "Forgotten", dry_run: bool, file_retention_hours: int) -> None:
    """Print the counts of forgotten messages and rows, and for how long old files keep the reasons."""
    counts = asdict(found)
    pairs({name: count for name, count in counts.items() if count or name == "messages"})
    if dry_run:
        line("Nothing was changed.")
    elif found.events or found.ledger or found.holds:
        line(
            "Old files of these tables keep the reasons until they are vacuumed, "
            f"{file_retention_hours:,} hours from now (PIPELINE_FILE_RETENTION_HOURS)."
        )


def published(found: "PublishedRows") -> None:
    """Print the first rows of a published table."""
    table = _table(*found.columns)
    for index, column in enumerate(table.columns):
        if any(isinstance(row[index], int | float) for row in found.rows):
            column.justify = "right"
    for row in found.rows:
        table.add_row(*(_text("" if value is None else str(value)) for value in row))
    line(f"{found.stream} in {found.to}")
    _print(table)
    line(f"{len(found.rows):,} of {found.total:,} rows")


def registered(listed: "Sequence[Mapping[str, Any]]") -> None:
    """Print the registered topologies, each with its description or its fault."""
    table = _table("topology", "import string", "")
    for each in listed:
        said = _text(each["fault"], "red") if each["fault"] else _text(each["doc"])
        table.add_row(_text(each["name"] or "-"), _text(each["import_string"]), said)
    _print(table)


def manifest(value: "Manifest") -> None:
    """Print a topology's components, each with its inputs, the tables it publishes to, and its docstring."""
    schedule = ", ".join(value.schedule) if isinstance(value.schedule, tuple) else value.schedule
    title = f"topology {value.name}" + (f", scheduled by {schedule}" if schedule else "")
    table = _table("component", "reads", "publishes to", "")
    for component in value.components:
        reads = ", ".join(component.inputs) or "its source"
        tables = ", ".join(value.tables[stream] for stream in value.published_by(component.name))
        table.add_row(component.name, reads, _text(tables), _text(component.doc, keep="\n"))
    line(title)
    _print(table)

"""The demonstration's verdict: the audit, and the published counts beside a plain count."""

from typing import Any

import click

from acker.cli import rendering as render
from acker.core.audit import Audit
from acker.core.delta import Store, open_table, query
from acker.reports.audit import audit_report
from pipeline.demo.feed import plain_counts
from pipeline.wordcount import COUNTS, topology


def judge(store: Store) -> int:
    """Print the audit and compare the published counts with a plain count."""
    result: Audit = audit_report(topology, store)
    render.audit(result)
    table = open_table(str(COUNTS))
    rows: list[dict[str, Any]] = query("SELECT word, count FROM counts", counts=table) if table else []
    published = {row["word"]: row["count"] for row in rows}
    plain = plain_counts({letter.message for letter in result.dead_letters})
    differing = sorted(word for word in plain.keys() | published if plain[word] != published.get(word, 0))
    click.echo(
        f"published: {len(published):,} words, {sum(published.values()):,} in all; "
        f"plain count without dead letters: {len(plain):,} words, {plain.total():,} in all"
    )
    if differing:
        examples = ", ".join(f"{w!r} {published.get(w, 0)} ≠ {plain[w]}" for w in differing[:5])
        click.secho(f"The counts differ for {len(differing):,} words: {examples}", fg="red")
    if not result.passed or differing:
        return 1
    click.secho("The counts agree.", fg="green")
    if result.dead_letters:
        first = result.dead_letters[0].message
        click.echo(f"Look further: .venv/bin/acker trace wordcount {first}")
    return 0

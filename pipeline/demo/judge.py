"""The demonstration's verdict: the audit, the published counts beside a plain count, and the lag in Kafka."""

from typing import Any

import click

from acker.batches.run import utc_now
from acker.cli import rendering as render
from acker.core.snapshot.verdict import Audit
from acker.core.store.store import Store
from acker.core.store.tables import open_table, query
from acker.reports.audit import audit_report
from acker.reports.status import status_report
from pipeline.demo.feed import Feed, plain_counts
from pipeline.wordcount import COUNTS, COUNTS_TOPIC, GROUP, SERVERS, topology


def judge(store: Store, source: Feed) -> int:
    """Print the audit, and compare the published counts with a plain count. Returns the exit code."""
    result: Audit = audit_report(topology, store)
    render.audit(result)
    table = open_table(str(COUNTS))
    rows: list[dict[str, Any]] = query("SELECT word, count FROM counts", counts=table) if table else []
    published = {row["word"]: row["count"] for row in rows}
    plain = plain_counts(source, {letter.message for letter in result.dead_letters})
    differing = sorted(word for word in plain.keys() | published if plain[word] != published.get(word, 0))
    click.echo(
        f"published: {len(published):,} words, {sum(published.values()):,} in all; "
        f"plain count without dead letters: {len(plain):,} words, {plain.total():,} in all"
    )
    if differing:
        examples = ", ".join(f"{w!r} {published.get(w, 0)} ≠ {plain[w]}" for w in differing[:5])
        click.secho(f"The counts differ for {len(differing):,} words: {examples}", fg="red")
    agree = (not differing, _tell_counts(source, published), _tell_lags(store, source))
    if not result.passed or not all(agree):
        return 1
    click.secho("The counts agree.", fg="green")
    if result.dead_letters:
        first = result.dead_letters[0].message
        servers = f"PIPELINE_KAFKA_SERVERS={SERVERS} " if SERVERS else ""
        click.echo(f"Look further: {servers}.venv/bin/acker trace {topology.name} {first}")
    return 0


def _tell_counts(source: Feed, published: dict[str, int]) -> bool:
    """Print what a topic of counts holds. Returns whether it is what the table holds."""
    found = source.counts()
    if found is None:
        return True  # no Kafka
    click.echo(f"topic {COUNTS_TOPIC}: {len(found):,} words, {sum(found.values()):,} in all")
    if found != published:
        click.secho(f"The topic {COUNTS_TOPIC} holds something else than the table.", fg="red")
    return found == published


def _tell_lags(store: Store, source: Feed) -> bool:
    """Print how far the consumer group is, as `acker status` has it. Returns whether Kafka says the same."""
    told = source.lags()
    if not told:
        return True  # no Kafka
    positions = status_report(topology, store, utc_now())["positions"]
    ours = {each["source_partition"]: (each["committed_upto"], each["end"]) for each in positions}
    for partition, (committed, end) in ours.items():
        click.echo(f"{partition}: committed {committed:,} of {end:,}, lag {end - committed:,}")
    if ours != told:
        click.secho(f"Kafka says otherwise of the group {GROUP}: {told}", fg="red")
    return ours == told

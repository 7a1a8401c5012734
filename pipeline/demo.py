"""`make run`: count words through failures, retries and two killings, and check the result.

The work is done by child processes, as a scheduler would run it. The first is killed between a bolt's
write and its log, the second together with the Spark server in the middle of a fold; the third goes on
from what they left. LINES (100,000) sets how many new lines are read; a second run reads the next ones.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import threading
from collections import Counter
from pathlib import Path

import click

from acker.audit import Audit
from acker.errors import AckerError, SettingsError
from acker.tables import Store, open_table, query
from pipeline import cycle, render, server
from pipeline.examples.wordcount import COUNTS, OUTAGE, SOURCES, topology
from pipeline.journal import Journal
from pipeline.progress import ProgressReport
from pipeline.reports import audit_report
from pipeline.run import Run, Step
from pipeline.session import connect
from pipeline.settings import Settings

DEFAULT_LINES = 100_000
_INTO_THE_FOLD_SECONDS = 1.0
# What Java's \s is: Python's also splits at other Unicode spaces.
_SPACE = re.compile(r"[ \t\n\x0b\f\r]+")


def main() -> None:
    """Run the demonstration, or with arguments one of its child processes."""
    try:
        if len(sys.argv) > 1:
            work(Settings.from_env(), sys.argv[1], int(sys.argv[2]))
            return
        sys.exit(demonstrate(Settings.from_env(), wanted_lines()))
    except AckerError as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(2)
    except KeyboardInterrupt:
        if len(sys.argv) == 1:  # a child process hears of it too, and leaves the telling to its parent
            click.echo("Interrupted. `make run` goes on from here.", err=True)
        sys.exit(130)


def wanted_lines() -> int:
    """How many new lines to read, from LINES.

    Raises:
        SettingsError: LINES is not a positive number.
    """
    text = os.environ.get("LINES") or str(DEFAULT_LINES)
    if not text.isdigit() or int(text) == 0:
        raise SettingsError(f"LINES must be a positive whole number, not {text!r}.")
    return int(text)


def demonstrate(settings: Settings, lines: int) -> int:
    """Feed, work, be killed, go on, and judge. Returns the exit code."""
    store = Store(settings.store, topology.name)
    copy_sources()
    read_before = lines_read(store)
    goal = read_before + lines
    click.echo(f"{read_before:,} lines were read before; this run reads up to {lines:,} more.")
    OUTAGE.touch()
    owned = settings.remote is None
    try:
        for killing, story in (
            ("words:written", "Killed between write and log. Starting again."),
            ("folding", "Killed during a fold, the Spark server with it. Starting again."),
            ("never", ""),
        ):
            if killing == "never":
                OUTAGE.unlink()
                click.echo("The lookup service is up again.")
            if owned:
                server.start(settings, owned=True)
            code = _child(killing, max(0, goal - lines_read(store)))
            if code == -signal.SIGKILL:
                click.secho(story, fg="yellow")
            elif code != 0:
                click.echo(f"The work ended with exit code {code}.", err=True)
                return 2
    finally:
        OUTAGE.unlink(missing_ok=True)
        if owned:
            server.stop(settings)
    return judge(store)


def _child(killing: str, limit: int) -> int:
    """Run a worker and wait for it; on Ctrl-C it gets its own, and is waited for."""
    child = subprocess.Popen([sys.executable, "-m", "pipeline.demo", killing, str(limit)])
    try:
        return child.wait()
    except KeyboardInterrupt:
        child.wait()
        raise


def work(settings: Settings, killing: str, limit: int) -> None:
    """Drain the topology, and die by SIGKILL at the named step."""
    spark = connect(settings)
    with ProgressReport(topology) as report:

        def on_step(step: Step) -> None:
            report(step)
            if killing == f"{step.component}:{step.name}":
                os.kill(os.getpid(), signal.SIGKILL)
            if killing == step.name:
                threading.Timer(_INTO_THE_FOLD_SECONDS, _kill_all, [settings]).start()

        store = Store(settings.store, topology.name)
        store.create(spark)
        cycle.drain(Run(topology, store, spark, on_step=on_step), limit)
    spark.stop()


def _kill_all(settings: Settings) -> None:
    found = None if settings.remote else server.find(settings)
    if found is not None:
        os.killpg(found.pid, signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


def copy_sources() -> None:
    """Copy the standard library's source files, once: the interpreter's own may change with an upgrade."""
    if SOURCES.exists():
        return
    draft = SOURCES.with_name("sources.new")
    shutil.rmtree(draft, ignore_errors=True)
    library = Path(sysconfig.get_path("stdlib"))
    for file in sorted(library.rglob("*.py")):
        relative = file.relative_to(library)
        if relative.parts[0] in ("site-packages", "dist-packages"):
            continue
        target = draft / relative
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(file, target)
    draft.rename(SOURCES)


def planned_ranges(store: Store) -> list[tuple[str, int, int]]:
    """(file, after, upto) of every range of lines that was planned so far."""
    batches = Journal(store).rows("component = 'lines' AND kind = 'next'")
    return [(f["path"], f["after"], f["upto"]) for batch in batches for f in batch.input["files"]]


def lines_read(store: Store) -> int:
    """How many lines were planned so far."""
    return sum(upto - after for _, after, upto in planned_ranges(store))


def plain_counts(store: Store, left_out: set[str]) -> Counter[str]:
    """Words of the lines that were read, counted without any of this project, less some messages."""
    counts: Counter[str] = Counter()
    for path, after, upto in planned_ranges(store):
        for number, line in enumerate((SOURCES / path).read_bytes().split(b"\n")[after:upto], after + 1):
            if f"lines:{path}:{number}" not in left_out:
                counts.update(word.lower() for word in _SPACE.split(line.decode()) if word)
    return counts


def judge(store: Store) -> int:
    """Print the audit and compare the published counts with a plain count."""
    result: Audit = audit_report(topology, store)
    render.audit(result)
    table = open_table(str(COUNTS))
    rows = query("SELECT word, count FROM counts", counts=table) if table is not None else []
    published = {row["word"]: row["count"] for row in rows}
    plain = plain_counts(store, {letter.message for letter in result.dead_letters})
    differing = sorted(word for word in plain.keys() | published if plain[word] != published.get(word, 0))
    click.echo(
        f"published: {len(published):,} words, {sum(published.values()):,} in all; "
        f"plain count without dead letters: {len(plain):,} words, {plain.total():,} in all"
    )
    settled = result.pending == result.retrying == 0
    if not settled:
        click.secho("Some messages have not settled yet.", fg="red")
    if differing:
        examples = ", ".join(f"{w!r} {published.get(w, 0)} ≠ {plain[w]}" for w in differing[:5])
        click.secho(f"The counts differ for {len(differing):,} words: {examples}", fg="red")
    if not result.passed or differing or not settled:
        return 1
    click.secho("The counts agree.", fg="green")
    if result.dead_letters:
        first = result.dead_letters[0].message
        click.echo(f"Look further: .venv/bin/python -m pipeline trace wordcount {first}")
    return 0


if __name__ == "__main__":
    main()

"""`make run`: count words under Airflow, through failures, retries and killings, and check the result.

Starts the embedded stack, feeds the word count example, and watches. A task is killed between a bolt's write
and its log, and Spark with it; another one in the middle of its fold. LINES (100,000) sets about how many new
lines are fed; a second run feeds the next files. With ONCE=1 it ends by itself, its exit code the verdict;
else it stays until Ctrl-C.
"""

import contextlib
import os
import re
import shutil
import signal
import sys
import sysconfig
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from queue import Queue
from threading import Thread
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from acker.batches.run import utc_now
from acker.cli import rendering as render
from acker.core.audit import Audit
from acker.core.delta import Store, open_table, query
from acker.core.errors import AckerError, ServerError, SettingsError
from acker.core.ledger import newest_fold
from acker.core.schemas import LEDGER, stream
from acker.journal.journal import Journal
from acker.reports.audit import audit_report
from acker.reports.status import status_report
from acker.runtime import server
from acker.runtime.settings import Settings, positive_number
from acker.runtime.stack import USER, ApiError, Stack, running_stack
from pipeline.wordcount import COUNTS, OUTAGE, SOURCES, topology

DAGS = Path(__file__).resolve().parents[1] / "dags"
DEFAULT_LINES = 100_000
_POLL_SECONDS = 1.0
_WATCH_SECONDS = 0.005  # what is to be hit lasts a tenth of a second
_ONCE_SECONDS = 1800  # ONCE=1 gives up after this
_KINDS = ("run", "acker", "replay", "maintain")
# What Java's \s is: Python's also splits at other Unicode spaces.
_SPACE = re.compile(r"[ \t\n\x0b\f\r]+")


def main() -> None:
    """Run the demonstration."""
    try:
        sys.exit(
            demonstrate(
                Settings.from_env(), positive_number("LINES", DEFAULT_LINES), bool(os.environ.get("ONCE"))
            )
        )
    except AckerError as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(2)
    except KeyboardInterrupt:
        click.echo("Stopped. `make run` goes on from here.", err=True)
        sys.exit(130)


def demonstrate(settings: Settings, lines: int, once: bool) -> int:
    """Feed, watch, judge, and with `once` end. Returns the exit code."""
    if settings.remote is not None:
        raise SettingsError("`make run` starts a Spark server of its own: unset SPARK_REMOTE.")
    store = Store(settings.store, topology.name)
    click.echo("Starting Spark and Airflow …")
    with running_stack(settings, DAGS) as stack:
        OUTAGE.parent.mkdir(parents=True, exist_ok=True)
        OUTAGE.touch()
        try:
            click.echo(f"Airflow is at {stack.url}; log in as {USER} with the password {stack.password}")
            click.echo(f"{feed(lines):,} new lines are fed.")
            settled = watch(stack, store, once)
        finally:
            OUTAGE.unlink(missing_ok=True)
        if not settled:
            click.secho(f"Not settled after {_ONCE_SECONDS} s; the task logs tell why.", fg="red")
            return 1
        code = judge(store)
        for kind in _KINDS:
            click.echo(f"{topology.name}.{kind}: {_runs(stack, kind)}")
        if not once:
            click.echo(f"Airflow goes on at {stack.url} until Ctrl-C.")
            while True:
                _tell(stack.supervise())
                time.sleep(_POLL_SECONDS)
    return code


def watch(stack: Stack, store: Store, once: bool) -> bool:
    """Show progress and make trouble until every line has settled and each DAG has succeeded.

    Returns:
        Whether it came to that; only with `once` it does not wait for ever.
    """
    trouble: Queue[str] = Queue()
    Thread(target=_make_trouble, args=(stack, store, trouble), daemon=True).start()
    deadline = time.monotonic() + _ONCE_SECONDS
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    console = Console()
    total = lines_fed()
    said = ""
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("waiting for the scheduler", total=total)
        while True:
            _tell(stack.supervise())
            states = _states(store)
            while not trouble.empty():
                bar.console.print(trouble.get(), style="yellow")
            if OUTAGE.exists() and states.get("retrying"):
                OUTAGE.unlink()
                bar.console.print("The lookup service is up again; what it failed is replayed.")
            settled = sum(states.get(state, 0) for state in ("acked", "dead_letter", "lost"))
            text = ", ".join(f"{n:,} {state}" for state, n in sorted(states.items())) or "nothing folded yet"
            bar.update(task, completed=settled, description=text)
            if not console.is_terminal and text != said:
                console.print(text, highlight=False)
                said = text
            if settled >= total and _is_published(store) and all(_runs(stack, k) for k in _KINDS):
                return True
            if once and time.monotonic() > deadline:
                return False
            time.sleep(_POLL_SECONDS)


def _tell(ended: list[str]) -> None:
    for name in ended:
        click.echo(f"{name} had ended and is started again.")


def _kill_spark(settings: Settings) -> None:
    found = server.find(settings)
    if found is not None:
        os.killpg(found.pid, signal.SIGKILL)


def _make_trouble(stack: Stack, store: Store, said: "Queue[str]") -> None:
    """Kill a task between a batch's write and its log, together with Spark, and then one in its fold."""
    journal = Journal(store)

    def is_written(task: dict[str, Any]) -> bool:
        return store.last_number(stream("words"), "words") > journal.logged("words")

    def is_folding(task: dict[str, Any]) -> bool:
        attempt = f"run_id={task['dag_run_id']}/task_id=fold/attempt={task['try_number']}.log"
        told = stack.settings.home / "airflow" / "logs" / f"dag_id={topology.name}.acker" / attempt
        return told.exists() and "reading events" in told.read_text(errors="replace")

    _kill_task(stack, "run", "words", is_written)
    _kill_spark(stack.settings)
    said.put("A task and Spark are killed between write and log of a batch of words.")
    _kill_task(stack, "acker", "fold", is_folding)
    said.put("A task is killed in the middle of its fold.")


def _kill_task(stack: Stack, kind: str, name: str, is_time: Callable[[dict[str, Any]], bool]) -> None:
    """Wait until Airflow runs a task and it is time, and kill the task's process."""
    path = f"dags/{topology.name}.{kind}/dagRuns/~/taskInstances?state=running"
    while True:
        with contextlib.suppress(OSError, ServerError):
            for task in stack.api("GET", path)["task_instances"]:
                while task["task_id"] == name and task["pid"] and Path(f"/proc/{task['pid']}").exists():
                    if is_time(task):
                        os.kill(task["pid"], signal.SIGKILL)
                        return
                    time.sleep(_WATCH_SECONDS)
        time.sleep(_POLL_SECONDS / 4)


def _states(store: Store) -> dict[str, int]:
    """Messages by what became of them last; nothing before the first fold."""
    if store.open(LEDGER) is None:
        return {}
    states: dict[str, int] = status_report(topology, store, utc_now())["states"]
    return {state: n for state, n in states.items() if state not in ("failed", "timed_out")}


def _is_published(store: Store) -> bool:
    """Whether every message is settled and the published table holds all that the newest fold acked."""
    result = audit_report(topology, store)
    return newest_fold(store) is not None and result.pending == result.retrying == result.unpublished == 0


def _runs(stack: Stack, kind: str) -> str:
    """How many runs of a DAG succeeded, in words; empty if none."""
    path = f"dags/{topology.name}.{kind}/dagRuns?state=success&limit=1"
    try:
        count = stack.api("GET", path)["total_entries"]
    except ApiError:
        return ""  # the DAG is not there yet
    return f"{count} successful runs" if count else ""


def feed(lines: int) -> int:
    """Copy the standard library's next source files, until there are so many lines. Returns how many.

    They are copied because the interpreter's own may change with an upgrade.
    """
    library = Path(sysconfig.get_path("stdlib"))
    fed = 0
    for file in sorted(library.rglob("*.py")):
        relative = file.relative_to(library)
        target = SOURCES / relative
        hidden = any(part.startswith(("_", ".")) for part in relative.parts)  # Spark reads no such files
        if hidden or relative.parts[0] in ("site-packages", "dist-packages") or target.exists():
            continue
        if fed >= lines:
            break
        target.parent.mkdir(parents=True, exist_ok=True)
        draft = target.with_name(f"{target.name}.new")  # the spout takes *.py, and only whole files
        shutil.copy2(file, draft)
        draft.rename(target)
        fed += _count_lines(target)
    return fed


def lines_fed() -> int:
    """How many lines were fed so far."""
    return sum(_count_lines(file) for file in SOURCES.rglob("*.py"))


def _count_lines(file: Path) -> int:
    text = file.read_bytes()
    return text.count(b"\n") + (not text.endswith(b"\n") and text != b"")


def plain_counts(left_out: set[str]) -> Counter[str]:
    """Words of the lines that were fed, counted without any of this project, less some messages."""
    counts: Counter[str] = Counter()
    for file in SOURCES.rglob("*.py"):
        path = file.relative_to(SOURCES).as_posix()
        for number, line in enumerate(file.read_bytes().split(b"\n"), 1):
            if f"lines:{path}:{number}" not in left_out:
                counts.update(word.lower() for word in _SPACE.split(line.decode()) if word)
    return counts


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


if __name__ == "__main__":
    main()

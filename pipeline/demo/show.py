"""The show: starts Airflow and Spark, feeds the word count, makes trouble, watches, and has it judged.

A task is killed between a bolt's write and its log, and Spark with it; another one in the middle of its fold.
"""

import time
from collections.abc import Mapping
from pathlib import Path
from queue import Queue
from threading import Thread

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from acker.batches.run import utc_now
from acker.core.snapshot.ledger import newest_fold
from acker.core.store.schemas import LEDGER
from acker.core.store.store import Store
from acker.reports.audit import audit_report
from acker.reports.status import status_report
from acker.runtime.settings import Settings
from embedded.broker import Broker
from embedded.cluster import Cluster
from embedded.stack import USER, ApiError, Stack, running_stack
from pipeline.demo.chaos import make_trouble
from pipeline.demo.feed import Feed, Files, feed
from pipeline.demo.judge import judge
from pipeline.demo.topic import Topic
from pipeline.wordcount import OUTAGE, topology

DAGS = Path(__file__).resolve().parents[2] / "dags"
_POLL_SECONDS = 1.0
_ONCE_SECONDS = 1800  # ONCE=1 gives up after this
_KINDS = ("run", "acker", "retry", "maintain")  # which succeed; the monitor tells of dead letters
_FORMER = {"failed", "timed_out"}  # attempts that others have followed, or will


def demonstrate(
    settings: Settings, lines: int, once: bool, broker: Broker | None, cluster: Cluster | None
) -> int:
    """Feed, watch, judge, and with `once` end. Returns the exit code.

    Args:
        broker: that of the topology's topic; None where its lines are in files.
        cluster: on which Spark's jobs run; None where they run in its server.
    """
    beside: dict[str, Broker | Cluster] = {"Kafka": broker} if broker else {}
    beside |= {"Spark's cluster": cluster} if cluster else {}
    source = Topic(broker.servers) if broker else Files()
    store = Store(settings.store, topology.name)
    click.echo("Starting Spark and Airflow …")
    with running_stack(settings, DAGS) as stack:
        OUTAGE.parent.mkdir(parents=True, exist_ok=True)
        OUTAGE.touch()
        try:
            click.echo(f"Airflow is at {stack.url}; log in as {USER} with the password {stack.password}")
            click.echo(f"{feed(source, lines):,} new lines are fed.")
            settled = watch(stack, beside, source, store, once)
        finally:
            OUTAGE.unlink(missing_ok=True)
        if not settled:
            click.secho(f"Not settled after {_ONCE_SECONDS} s; the task logs tell why.", fg="red")
            return 1
        code = judge(store, source)
        for kind in _KINDS:
            click.echo(f"{topology.name}.{kind}: {_runs(stack, kind)}")
        if not once:
            click.echo(f"Airflow goes on at {stack.url} until Ctrl-C.")
            while True:
                _supervise(stack, beside)
                time.sleep(_POLL_SECONDS)
    return code


def watch(
    stack: Stack, beside: Mapping[str, Broker | Cluster], source: Feed, store: Store, once: bool
) -> bool:
    """Show progress and make trouble until every line has settled and each DAG has succeeded.

    Returns:
        Whether it came to that; only with `once` it does not wait for ever.
    """
    trouble: Queue[str] = Queue()
    Thread(target=make_trouble, args=(stack, store, trouble), daemon=True).start()
    deadline = time.monotonic() + _ONCE_SECONDS
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    console = Console()
    total = sum(1 for _ in source.messages())
    said = ""
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("waiting for the scheduler", total=total)
        while True:
            _supervise(stack, beside)
            history = _history(store)
            states = {state: n for state, n in history.items() if state not in _FORMER}
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
            if settled >= total and _is_done(store, source):
                # Few lines may all be acked at once, and then nothing is replayed.
                kinds = [each for each in _KINDS if each != "retry" or history.keys() & _FORMER]
                if all(_runs(stack, each) for each in kinds):
                    return True
            if once and time.monotonic() > deadline:
                return False
            time.sleep(_POLL_SECONDS)


def _supervise(stack: Stack, beside: Mapping[str, Broker | Cluster]) -> None:
    ended = stack.supervise()
    for name, part in beside.items():
        if not part.is_running:
            part.start()
            ended.append(name)
    for name in ended:
        click.echo(f"{name} had ended and is started again.")


def _history(store: Store) -> dict[str, int]:
    """Attempts by state; nothing before the first fold."""
    if store.open(LEDGER) is None:
        return {}
    states: dict[str, int] = status_report(topology, store, utc_now())["states"]
    return states


def _is_done(store: Store, source: Feed) -> bool:
    """Whether every message is settled, all that the newest fold acked is published, and the source knows."""
    result = audit_report(topology, store)
    is_published = result.pending == result.retrying == result.unpublished == 0
    is_known = all(committed == end for committed, end in source.lags().values())
    return newest_fold(store) is not None and is_published and is_known


def _runs(stack: Stack, kind: str) -> str:
    """How many runs of a DAG succeeded, in words; empty if none."""
    path = f"dags/{topology.name}.{kind}/dagRuns?state=success&limit=1"
    try:
        count = stack.api("GET", path)["total_entries"]
    except ApiError:
        return ""  # the DAG is not there yet
    return f"{count} successful runs" if count else ""

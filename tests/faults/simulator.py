"""Simulates a run with processes against the real system and judges how it ends.

The judges are `audit`, invariants of the tables, the plain acker over every recorded event, fold by fold,
and the run's own plain computation of what is published.
"""

import shutil
import threading
import traceback
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from acker.batches.run import Run
from acker.core.events import Event, Kind, LedgerRow, State
from acker.core.snapshot.ledger import APP, newest_fold, read_fold, unfolded
from acker.core.store.schemas import is_tuple, stream
from acker.core.store.store import Store
from acker.core.store.tables import in_batches, last_number, query
from acker.operations.fold import waiting_batches
from acker.runtime.server.sessions import connect
from tests.faults import by_hand
from tests.faults.judge import faults, newest_rows
from tests.faults.random_runs import Action, SimulatedRun
from tests.faults.shapes import Message, Shape, build, feed, published, wanted
from tests.faults.worker import Order, Reply, Worker
from tests.kit.fold_steps import written
from tests.kit.oracle import Ledger, fold

START = datetime(2026, 1, 1, tzinfo=UTC)
TRIES = 5  # of an order that a conflict refuses, as a scheduler has
TAKES_AWAY = ("compact", "trim", "vacuum", "back_up")  # what the plain acker reads; the last the store itself


class Crew:
    """Workers that wait for orders, for any number of players."""

    def __init__(self, remote: str) -> None:
        self.remote = remote
        self._all: list[Worker] = []
        self._idle: list[Worker] = []
        self._is_over = False
        self._lock = threading.Lock()

    def take(self) -> Worker:
        """A worker that has nothing to do.

        Raises:
            RuntimeError: all has ended.
        """
        with self._lock:
            if self._is_over:
                raise RuntimeError("the crew has ended")
            if not self._idle:
                self._idle.append(Worker(self.remote))
                self._all.append(self._idle[0])
            return self._idle.pop()

    def give(self, worker: Worker) -> None:
        with self._lock:
            self._idle.append(worker)

    def end(self) -> None:
        """End all workers, also those that are at work."""
        with self._lock:
            self._is_over = True
            for worker in self._all:
                worker.end()


@dataclass
class Follower:
    """The plain acker, which is taken through the folds of a store as they come."""

    ledger: Ledger = field(default_factory=Ledger)
    shapes: dict[int, Shape] = field(default_factory=dict)  # fold -> the topology under which it was folded
    known: int = 0

    def note(self, store: Store, shape: Shape) -> None:
        """New folds are of this topology."""
        newest = newest_fold(store)
        number = newest.number if newest else 0
        self.shapes |= dict.fromkeys(range(self.known + 1, number + 1), shape)
        self.known = number

    def differences(self, store: Store) -> list[str]:
        """Where the folds since the last call differ from the plain acker."""
        found = []
        refused = {row["root_id"] for row in query("SELECT root_id FROM r", r=store.require("refusals"))}
        for number in range(self.ledger.fold + 1, self.known + 1):
            before, self.ledger = self.ledger, self._folded(store, number)
            ours, theirs = Counter(written(before, self.ledger)), Counter(map(_row, _rows(store, number)))
            found += [f"fold {number} lacks {row}" for row in (ours - theirs).elements()]
            others = [row for row in (theirs - ours).elements() if not _is_refused(row, refused)]
            found += [f"fold {number} must not have {row}" for row in others]
        return found

    def _folded(self, store: Store, number: int) -> Ledger:
        table = store.require("ledger")
        this, before = read_fold(table, number), read_fold(table, number - 1) if number > 1 else None
        topology = build(self.shapes[number])
        new = f"SELECT * FROM events WHERE root_id IS NOT NULL AND ({unfolded(before, this.logged)})"
        assert this.folded_at is not None
        return fold(
            self.ledger,
            map(_event, query(new, events=store.require("events"))),
            now=this.folded_at,
            timeouts=topology.timeouts,
            retry=topology.retry,
            waiting=_waiting(Run(topology, store, connect), this.logged) if topology.timeouts.turns else (),  # type: ignore[arg-type]
            spouts=[spout.name for spout in topology.spouts],
        )


def _rows(store: Store, fold: int) -> list[dict[str, Any]]:
    """Rows that a fold settled, and those that were live in it, which it may have taken over from others."""
    ledger = store.require("ledger")
    while last_number(ledger, APP) > fold:
        ledger.load_as_version(ledger.version() - 1)
    its = f"live_in = {fold} OR (live_in IS NULL AND fold = {fold})"
    return query(f"SELECT * FROM ledger WHERE root_id IS NOT NULL AND ({its})", ledger=ledger)


def _is_refused(row: LedgerRow, refused: set[int]) -> bool:
    """Whether a row says that an acked attempt failed after all, which no event has said."""
    return row.root_id in refused and row.state in (State.FAILED, State.DEAD_LETTER)


def _row(row: dict[str, Any]) -> LedgerRow:
    values = {each.name: row[each.name] for each in fields(LedgerRow)}
    return LedgerRow(**{**values, "state": State(row["state"])})


def _event(row: dict[str, Any]) -> Event:
    values = {each.name: row[each.name] for each in fields(Event)}
    return Event(**{**values, "kind": Kind(row["kind"])})


def _waiting(run: Run, logged: dict[str, int]) -> set[int]:
    """The roots of the tuples that a bolt had yet to take."""
    roots: set[int] = set()
    for (name, _), batches in waiting_batches(run.topology, run.snapshot(), logged).items():
        table = run.store.open(stream(name))
        if table is None:
            continue
        columns = [each.name for each in table.schema().fields]
        mine = f"{is_tuple(name, columns)} AND {in_batches(batches)}"
        several = "_root_ids" if "_root_ids" in columns else "NULL AS _root_ids"
        for row in query(f"SELECT _root_id, {several} FROM s WHERE {mine}", s=table):
            roots |= set(row["_root_ids"] or [row["_root_id"]])
    return roots - {None}


def wrong_with(run: SimulatedRun, crew: Crew, empty_store: Path) -> str:
    """Simulate a run. Returns what is wrong with its end, and how it came to it; empty where nothing is."""
    simulator = Simulator(run, crew, empty_store)
    try:
        wrong = simulator.simulate()
    except Exception:
        wrong = [traceback.format_exc()]
    return "\n".join([str(run), *simulator.said, "wrong:", *wrong]) if wrong else ""


class Simulator:
    """Simulates one run."""

    def __init__(self, run: SimulatedRun, crew: Crew, empty_store: Path) -> None:
        self.run = run
        self.crew = crew
        self.shape = run.shape
        self.now = START
        self.store = Store(self.shape.store, "sim")
        self.follower = Follower()
        self.worker = crew.take()
        self.late: tuple[Worker, Shape] | None = None
        self.fed: dict[str, int] = dict.fromkeys(self.shape.spouts, 0)
        self.said: list[str] = []  # what became of each order
        self.ruled: set[str] = set()  # streams whose tables refuse something
        self.refused: set[Message] = set()  # by any of these tables
        self.by_hand = {"rule": self._rule, "alter": self._alter, "edit": self._edit, "drop": self._drop}
        Path(self.shape.folder).mkdir(parents=True)
        shutil.copytree(empty_store, self.store.path(""))

    def simulate(self) -> list[str]:
        """Let all happen, and return what is wrong with the end."""
        try:
            for action in self.run.actions:
                self.act(action)
        except Exception:
            for worker in (self.worker, self.late[0] if self.late else self.worker):
                worker.end()  # it may be in the midst of something
            raise
        self.crew.give(self.worker)
        return self._judge()

    def act(self, action: Action) -> None:
        if action.what == "feed":
            self._feed(action.feed)
        elif action.what == "later":
            self.now += timedelta(seconds=action.seconds)
        elif action.what == "become":
            assert action.shape is not None
            self.shape = action.shape
            self.store = Store(self.shape.store, "sim")  # another where it was restored elsewhere
        elif action.what == "resume":
            self._resume()
        elif action.what in self.by_hand:
            path = self.shape.table(action.stream)
            self.said.append(f"{action}: {self.by_hand[action.what](action, path)}")
        else:
            assert action.order is not None
            self._do(action.order)

    def _feed(self, count: int) -> None:
        for spout in self.shape.spouts:
            first = self.fed[spout] + 1
            self.fed[spout] += count
            rows = [
                {"id": number, "key": key, "v": v}
                for number in range(first, first + count)
                for key, v in [self.run.messages[f"{spout}/{number}"]]
            ]
            feed(self.shape, spout, rows)

    def _do(self, order: Order) -> None:
        if order.what in TAKES_AWAY:
            self._follow()
        for _ in range(TRIES):
            self.worker.send(self.shape, self.now, order)
            reply = self._hear(self.worker)
            self.said.append(f"{order}: {reply.what} {reply.told}")
            if reply.what == "killed":
                self.worker = self.crew.take()
            if reply.what == "paused":
                self.late, self.worker = (self.worker, self.shape), self.crew.take()
            if reply.what != "refused" or "cannot be replayed" in reply.told:
                break
        else:
            raise AssertionError(f"refused {TRIES} times: {reply.told}")
        self.follower.note(self.store, self.shape)

    def _rule(self, action: Action, path: str) -> str:
        """A table refuses a key, whose message is then given up however it comes to it."""
        if not by_hand.refuse_key(path, action.key):
            return "it is not there yet"
        self.ruled.add(action.stream)
        refused = {message for message, (key, _) in self.run.messages.items() if key == action.key}
        self.run.acked -= refused
        self.run.revived -= refused
        self.run.dead |= refused
        self.refused |= refused
        return "done"

    def _alter(self, action: Action, path: str) -> str:
        return by_hand.alter(path, action.key) or "it is not there yet"

    def _edit(self, action: Action, path: str) -> str:
        """A row that is edited is found by an audit, which names its message if that was not trimmed."""
        row = by_hand.some_row(path)
        if row is None:
            return "it has no row"
        assert self._asked(Order("audit")).told == {}
        by_hand.edit(path, row)
        found = self._asked(Order("audit")).told
        names = {name for each in found.values() for name in each}
        assert names, f"an audit does not find that {row} was edited"
        if "who" in row and "trim" not in self.run.features:
            assert names & by_hand.named(row), f"an audit tells of {names} and not of {row}"
        by_hand.edit(path, row, back=True)
        return str(found)

    def _drop(self, action: Action, path: str) -> str:
        """A table that is gone is told. It is put back, or published again."""
        if not by_hand.take_away(path):
            return "it is not there yet"
        reply = self._asked(Order("publish"))
        assert (reply.what, "is gone" in str(reply.told)) == ("refused", True), reply
        if not action.key or action.stream in self.ruled:  # a new table would have no rule
            by_hand.put_back(path)
            return "put back"
        self._do(Order("republish", options={"stream": action.stream}))
        return "published again"

    def _asked(self, order: Order) -> Reply:
        self.worker.send(self.shape, self.now, order)
        return self._hear(self.worker)

    def _resume(self) -> None:
        if self.late is None:  # it had come to its end before the step
            return
        (worker, shape), self.late = self.late, None
        worker.go_on()
        reply = self._hear(worker)
        self.said.append(f"resumed: {reply.what} {reply.told}")
        self.crew.give(worker)
        self.follower.note(self.store, shape)

    def _hear(self, worker: Worker) -> Reply:
        reply = worker.hear()
        self.now = max(self.now, reply.now)
        return reply

    def _follow(self) -> None:
        found = self.follower.differences(self.store)
        assert not found, "the fold differs from the plain acker:\n" + "\n".join(found)

    def _judge(self) -> list[str]:
        self._follow()
        trimmed = "trim" in self.run.features
        topology = build(self.shape)
        found = [
            each
            for each in faults(topology, self.store)
            if not (trimmed and each.startswith("acked without proof"))
        ]
        found += wrong_states(self.run, self.store)
        return found + wrong_rows(self.shape, self.run, self.refused)


def final_states(store: Store) -> dict[Message, str]:
    return {f"{row['spout']}/{row['source_offset']}": row["state"] for row in newest_rows(store)}


def wrong_states(run: SimulatedRun, store: Store) -> list[str]:
    """Messages that are not what they must be; one whose partner is given up must only not be acked."""
    states = final_states(store)
    every = run.shape.untracked
    tracked = {m for m, (key, _) in run.messages.items() if not (every and key % every == 0)}
    found = [f"{message} is in the ledger" for message in set(states) - tracked]
    acked = run.acked | run.revived
    for message in sorted(tracked):
        state = states.get(message)
        want = (
            {"acked"}
            if message in acked
            else {"dead_letter"}
            if message in run.dead
            else set(State) - {"acked"}
        )
        if state not in want:
            found.append(f"{message} is {state} and not {' or '.join(sorted(want))}")
    return found


def wrong_rows(shape: Shape, run: SimulatedRun, refused: Collection[Message] = ()) -> list[str]:
    """Rows that are published and must not be, or that are missing.

    Args:
        refused: messages that a table refuses. A topic of rows keeps what it got of them before.
    """
    found = []
    have = published(shape)
    for name, want in wanted(shape, run.messages, run.acked | run.revived).items():
        keeps = bool(shape.servers) and name in shape.rows
        more = [
            row
            for row in (have[name] - want).elements()
            if not (keeps and set(row[0].split("+")) & set(refused))
        ]
        found += [f"{name} lacks {row}" for row in (want - have[name]).elements()]
        found += [f"{name} must not have {row}" for row in more]
    return found

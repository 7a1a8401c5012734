"""Two things done at the same moment in processes of their own: one does them, the other resumes or leaves.

A prepared store is copied, two workers begin what they are told at a moment that both know, and then one of
them finishes what is left. What was published must be what a plain computation says.
"""

import shutil
import time
import traceback
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

import pytest

from acker.core.events import State
from acker.core.store.store import Store
from acker.core.store.tables import query
from tests.faults.by_hand import refuse_key
from tests.faults.judge import faults
from tests.faults.random_runs import Action, SimulatedRun
from tests.faults.shapes import Node, Shape, build
from tests.faults.side_by_side import SideBySide
from tests.faults.simulator import START, TRIES, Crew, Follower, Simulator, wrong_rows, wrong_states
from tests.faults.worker import Order, Worker

KIND = "two at once"
AT_ONCE = 2  # pairs side by side
NOTICE_SECONDS = 0.2  # that the workers have to get ready
OFFSETS_SECONDS = (0, 0.1, -0.1, 0.5, -0.5)
MAINTENANCE = ("compact", "trim", "vacuum")


def branches(folder: str) -> Shape:
    """Rows of one branch and aggregates of another."""
    nodes = (
        Node("left", "map", ("a",), 1, fans=True, fails={"a/2": 1}),
        Node("right", "basic", ("a",), 2, fails={"a/3": 1}),
        Node("both", "diamond", ("left", "right"), 3),
        Node("aside", "map", ("a",), 4),
    )
    return Shape(folder, ("a",), nodes, ("left", "both"), ("right",), options={"message_timeout": None})


def pairs(folder: str) -> Shape:
    """Rows and aggregates of messages that a rich bolt joins."""
    nodes = (
        Node("join", "pair", ("a", "b"), 1, fails={"b/2": 1}, tasks=2),
        Node("after", "map", ("join",), 2, fails={"a/3": 1}),
        Node("aside", "rich", ("b",), 4),
    )
    return Shape(folder, ("a", "b"), nodes, ("join",), ("after",), options={"message_timeout": None})


SHAPES = {"branches": branches, "pairs": pairs}


def by_hand(*states: State) -> Order:
    return Order("replay", options={"states": states, "positions": (), "limit": None, "request": "one"})


RUN, FOLD, PUBLISH = Order("cycle"), Order("fold"), Order("publish")
DUE = Order("replay due")
ACKED = by_hand(State.ACKED)
WAITING = by_hand(State.RETRYING)
COMPACT, TRIM = Order("compact"), Order("trim")
VACUUM = Order("vacuum", options={"retention_hours": 168})
CHANGED_RUN, CHANGED_FOLD = Order("cycle under another topology"), Order("fold under another topology")

# What is done at once, and how far the store is: messages are fed, logged, folded, published, and fed anew.
# Then these are folded as well, and a table refuses one of them.
PAIRS = {
    "two runs": (RUN, RUN, "fed"),
    "two runs that replay": (RUN, RUN, "folded"),
    "two folds": (FOLD, FOLD, "logged"),
    "fold and run": (FOLD, RUN, "logged"),
    "fold and what is due": (FOLD, DUE, "folded"),
    "two replays of what is due": (DUE, DUE, "folded"),
    "fold and replay by hand": (FOLD, WAITING, "folded"),
    "what is due and replay by hand": (DUE, WAITING, "folded"),
    "run and replay by hand": (RUN, ACKED, "published"),
    "two replays by hand of one request": (ACKED, ACKED, "published"),
    "two publishes": (PUBLISH, PUBLISH, "folded"),
    "publish and fold": (PUBLISH, FOLD, "folded"),
    "publish and trim": (PUBLISH, TRIM, "folded"),
    "run and trim": (RUN, TRIM, "published"),
    "two trims": (TRIM, TRIM, "published"),
    "run and compact": (RUN, COMPACT, "published"),
    "fold and compact": (FOLD, COMPACT, "logged"),
    "publish and compact": (PUBLISH, COMPACT, "folded"),
    "replay by hand and compact": (ACKED, COMPACT, "published"),
    "trim and compact": (TRIM, COMPACT, "published"),
    "run and vacuum": (RUN, VACUUM, "published"),
    "publish and vacuum": (PUBLISH, VACUUM, "folded"),
    "run and change": (RUN, CHANGED_RUN, "logged"),
    "fold and change": (FOLD, CHANGED_FOLD, "spouts logged"),
    "run and change with a fold": (RUN, CHANGED_FOLD, "spouts logged"),
    "two publishes that refuse": (PUBLISH, PUBLISH, "refusing"),
    "run and publish that refuse": (RUN, PUBLISH, "refusing"),
    "publish that refuses and fold": (PUBLISH, FOLD, "refusing"),
}
STAGES = ("fed", "spouts logged", "logged", "folded", "published", "refusing")
REFUSED = 5  # the key


@dataclass(frozen=True)
class AtOnce:
    pair: str
    shape: str
    offset: float  # by how much the second begins later

    def __str__(self) -> str:
        return f"{self.pair}-{self.shape}-{self.offset:g}".replace(" ", "_")


def cases() -> Iterator[object]:
    """Every pair with every topology and offset.

    Every fifth pair is not thorough with one of each, and the first not extended either.
    """
    for number, pair in enumerate(PAIRS):
        for index, shape in enumerate(SHAPES):
            for turn, offset in enumerate(OFFSETS_SECONDS):
                is_one = index == number // 2 % len(SHAPES) and turn == number % len(OFFSETS_SECONDS)
                often = is_one and number % 5 == 0
                marks = [] if often else [pytest.mark.thorough]
                marks += [pytest.mark.extended] if number else []
                case = AtOnce(pair, shape, offset)
                yield pytest.param(case, marks=marks, id=str(case))


def simulated(shape: Shape) -> SimulatedRun:
    """Messages 1 to 6 of every spout, of which all are acked in the end."""
    messages = {f"{spout}/{n}": (n, 17 * n + 5) for spout in shape.spouts for n in range(1, 7)}
    return SimulatedRun(0, shape, messages, acked=set(messages))


class AllAtOnce:
    """AllAtOnce, each on a copy of a prepared store."""

    def __init__(self, items: list[AtOnce], crew: Crew, folder: Path, empty_store: Path) -> None:
        self.crew = crew
        self.folder = folder
        self.empty_store = empty_store
        for name in dict.fromkeys(case.shape for case in items):
            self._prepare(name)

    def _prepare(self, name: str) -> None:
        """A folder per stage of a topology's first messages."""
        shape = SHAPES[name](str(self.folder / name))
        simulator = Simulator(simulated(shape), self.crew, self.empty_store)
        bolts = [node.name for node in shape.nodes]
        simulator.act(Action("feed", 4))
        self._keep(name, "fed")
        simulator.act(Action("do", order=Order("steps", options={"names": list(shape.spouts)})))
        self._keep(name, "spouts logged")
        simulator.act(Action("do", order=Order("steps", options={"names": bolts})))
        self._keep(name, "logged")
        simulator.act(Action("do", order=FOLD))
        self._keep(name, "folded")
        simulator.act(Action("do", order=Order("drain")))
        simulator.act(Action("feed", 2))
        self._keep(name, "published")
        simulator.act(Action("do", order=Order("acked")))
        assert refuse_key(shape.table(shape.rows[-1]), REFUSED)
        self._keep(name, "refusing")
        self.crew.give(simulator.worker)

    def _keep(self, name: str, stage: str) -> None:
        shutil.copytree(self.folder / name, self.folder / f"{name} {stage}")

    def make(self, case: AtOnce) -> str:
        """What is wrong with the end of a case."""
        first, second, stage = PAIRS[case.pair]
        folder = self.folder / str(case)
        shutil.copytree(self.folder / f"{case.shape} {stage}", folder)
        shape = SHAPES[case.shape](str(folder))
        workers = [self.crew.take(), self.crew.take()]
        try:
            wrong = self._made(shape, workers, (first, second), case.offset, stage)
        except Exception:
            wrong = [traceback.format_exc()]
        for worker in workers:
            worker.end() if wrong else self.crew.give(worker)
        return "\n".join([str(case), *wrong]) if wrong else ""

    def _made(
        self, shape: Shape, workers: list[Worker], orders: tuple[Order, Order], offset: float, stage: str
    ) -> list[str]:
        now = START + timedelta(days=3 if TRIM in orders else 0)
        run = simulated(shape)
        if stage not in ("published", "refusing"):
            run.messages = {m: v for m, v in run.messages.items() if int(m.partition("/")[2]) <= 4}
            run.acked = set(run.messages)
        if stage == "refusing":
            run.dead = {m for m, (key, _) in run.messages.items() if key == REFUSED}
            run.acked -= run.dead
        begin = time.monotonic() + NOTICE_SECONDS
        shapes = [_changed(shape) if "another" in order.what else shape for order in orders]
        actual = [_plain(order, shape) for order in orders]
        for worker, which, order, late in zip(
            workers, shapes, actual, (max(-offset, 0), max(offset, 0)), strict=True
        ):
            worker.send(which, now, replace(order, begin=begin + late))
        refused = [worker.hear().what == "refused" for worker in workers]
        for again, worker, which, order in zip(refused, workers, shapes, actual, strict=True):
            for _ in range(TRIES if again else 0):
                worker.send(which, now, order)
                if worker.hear().what != "refused":
                    break
        workers[1].send(shapes[1], now, Order("drain"))
        workers[1].hear()
        store = Store(shape.store, "sim")
        found = faults(build(shapes[1]), store) + wrong_states(run, store) + wrong_rows(shape, run)
        attempts = 2 + (ACKED in orders) + 2 * (shapes[0] != shapes[1])
        found += _emitted_too_often(store, attempts)
        if not any(order.what in MAINTENANCE for order in orders) and shapes == [shape, shape]:
            follower = Follower()
            follower.note(store, shape)
            found += follower.differences(store)
        return [each for each in found if TRIM not in orders or not each.startswith("acked without proof")]


def _changed(shape: Shape) -> Shape:
    """The topology with a bolt by another name, so that what waits for it is replayed."""
    *nodes, aside = shape.nodes
    return replace(shape, nodes=(*nodes, replace(aside, name="beside")))


def _plain(order: Order, shape: Shape) -> Order:
    if order == DUE:
        return Order("steps", options={"names": list(shape.spouts)})
    return replace(order, what=order.what.partition(" ")[0])


def _emitted_too_often(store: Store, attempts: int) -> list[str]:
    """Messages that were emitted more often than something failed them or somebody asked."""
    sql = f"SELECT spout, source_offset, attempt FROM ledger WHERE attempt > {attempts}"
    rows = query(sql, ledger=store.require("ledger"))
    return [f"{row} was emitted too often" for row in rows]


@pytest.fixture(scope="module")
def made(asked, crew, empty_store, tmp_path_factory) -> Iterator[SideBySide[AtOnce, str]]:
    """All cases that are asked for, under way, and what is wrong with the end of each."""
    wanted = [each["case"] for each in asked]
    maker = AllAtOnce(wanted, crew, tmp_path_factory.mktemp("cases"), empty_store)
    found = SideBySide(AT_ONCE, maker.make, wanted)
    yield found
    crew.end()  # so that a run which is interrupted waits for no case's end
    found.stop()


@pytest.mark.parametrize("case", list(cases()))
def test_two_at_once_do_nothing_twice(case: AtOnce, made: SideBySide[AtOnce, str]):
    wrong = made.end(case)
    assert not wrong, wrong

"""Exploring a scenario: every state that can be reached, breadth first, or seeded random paths through it."""

from collections import deque
from dataclasses import dataclass
from random import Random

from tests.model.invariants import unfinished, violation
from tests.model.runs import finished, moves, regular, undisturbed
from tests.model.state import State
from tests.model.world import Scenario

_RARE = {
    "is killed": 0.15,
    "timeout passes": 0.04,
    "topology changes": 0.04,
    "compacted": 0.1,
    "begins": 0.04,
}
_LONGEST = 400  # runs of an undisturbed continuation


@dataclass(frozen=True)
class Result:
    """What an exploration found."""

    states: int
    is_whole: bool  # whether every state was seen
    fault: str | None = None
    trace: tuple[str, ...] = ()


class Continuation:
    """Whether a state that is left undisturbed ends where all is settled; remembers what was good."""

    def __init__(self, world: Scenario) -> None:
        self.world = world
        self.good: set[State] = set()

    def fault(self, s: State) -> tuple[str, list[str]] | None:
        s = s._replace(processes=())
        seen: list[State] = []
        said: list[str] = []
        while s not in self.good:
            seen.append(s)
            move = undisturbed(self.world, s)
            found = unfinished(self.world, s) if move is None else violation(self.world, s, move[1])
            if len(seen) > _LONGEST:
                found = "wedge: it goes on for ever"
            if move is not None:
                said.append(move[0])
            if found:
                return found, said
            if move is None:
                break
            s = move[1]
        self.good.update(seen)
        return None


def begin(world: Scenario) -> State:
    """Where a scenario starts: after the runs that it names, or where all is settled and published."""
    s = State()
    for name in world.begin:
        run = next(run for run in regular(world, s) if f"{run.op} {run.component}".strip() == name)
        _, s = finished(world, s, run)
    while world.settled_first and (move := undisturbed(world, s)) is not None:
        s = move[1]
    return s


def explore(world: Scenario, limit: int = 1_000_000, wanted: str = "") -> Result:
    """Breadth first until the end, the first fault that says what is wanted, or so many states."""
    start = begin(world)
    continuation = Continuation(world)
    parents: dict[State, tuple[State, str] | None] = {start: None}
    waiting = deque([start])
    while waiting:
        s = waiting.popleft()
        for what, after in moves(world, s):
            if after in parents:
                continue
            parents[after] = (s, what)
            fault = violation(world, s, after)
            then: list[str] = []
            if fault is None and not wanted and (wedge := continuation.fault(after)):
                fault, then = wedge[0], ["… and undisturbed from here", *wedge[1]]
            if fault and wanted in fault:
                return Result(len(parents), False, fault, (*path(parents, after), *then))
            if not fault:
                waiting.append(after)
        if len(parents) >= limit:
            return Result(len(parents), not waiting)
    return Result(len(parents), True)


def path(parents: dict[State, tuple[State, str] | None], s: State) -> list[str]:
    found: list[str] = []
    while (step := parents[s]) is not None:
        s, what = step
        found.append(what)
    return found[::-1]


def how_often(what: str) -> float:
    """How often a random path considers a move: what is rare in the world is rare in it as well."""
    return next((share for end, share in _RARE.items() if what.endswith(end)), 1.0)


def random_path(world: Scenario, seed: int, length: int) -> Result:
    """One random path, and its undisturbed continuation."""
    random = Random(seed)
    s, said = begin(world), []
    continuation = Continuation(world)
    for steps in range(length):
        found = [move for move in moves(world, s) if random.random() < how_often(move[0])]
        if not found:
            continue
        what, after = random.choice(found)
        said.append(what)
        fault = violation(world, s, after)
        if fault:
            return Result(steps + 1, False, fault, tuple(said))
        s = after
    wedge = continuation.fault(s)
    if wedge:
        return Result(len(said), False, wedge[0], (*said, "… and undisturbed from here", *wedge[1]))
    return Result(len(said), True)

"""Random runs: from one seed a topology, its messages, what fails in it, and what is done to its runs."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from acker.core.events import State
from tests.faults.shapes import KINDS, LARGE, MODULUS, Message, Node, Row, Shape, streams
from tests.faults.worker import Order

TIMEOUT_SECONDS = 60
NEVER = 99  # attempts that fail: all
_JOINS = ("diamond", "match", "pair")
# A DataFrame bolt joins what comes in one batch of each input, so its inputs must come evenly.
_EVEN = ("diamond", "match")


@dataclass(frozen=True)
class Action:
    """One thing that happens.

    Args:
        what: `feed`, `do` (an order), `resume` (who waits), `later` (a time in seconds), `become` (another
            topology); of a published table: `rule` (it refuses a key), `alter`, `edit` (a row, which is put
            right again), `drop` (it is put back, or published again).
        stream: that the table has.
        key: that is refused.
    """

    what: str
    feed: int = 0  # messages of each spout
    order: Order | None = None
    seconds: float = 0
    shape: Shape | None = None
    stream: str = ""
    key: int = 0

    def __str__(self) -> str:
        if self.what == "become":
            assert self.shape is not None
            nodes = [(node.name, node.kind, *node.inputs) for node in self.shape.nodes]
            return f"become {self.shape.place}{nodes}"
        return {
            "feed": f"feed {self.feed}",
            "do": f"do {self.order}",
            "resume": "let go on who waits",
            "later": f"{self.seconds} s later",
            "rule": f"{self.stream} refuses key {self.key}",
            "alter": f"{self.stream} is altered ({self.key})",
            "edit": f"a row of {self.stream} is edited",
            "drop": f"{self.stream} is dropped and {'published again' if self.key else 'put back'}",
        }[self.what]


@dataclass
class SimulatedRun:
    """What is to happen, and what must become of it."""

    seed: int
    shape: Shape
    messages: dict[Message, tuple[int, int]] = field(default_factory=dict)  # -> (key, v)
    actions: list[Action] = field(default_factory=list)
    features: set[str] = field(default_factory=set)
    acked: set[Message] = field(default_factory=set)
    dead: set[Message] = field(default_factory=set)
    revived: set[Message] = field(default_factory=set)  # acked in the end, when replayed by hand

    def __str__(self) -> str:
        shape = self.shape
        lines = [f"seed {self.seed}: {', '.join(sorted(self.features))}"]
        lines += [f"  {node}" for node in shape.nodes]
        lines.append(f"  rows of {shape.rows}, sums of {shape.sums}, {shape.options}, retries {shape.limit}")
        lines += [f"  {number}. {action}" for number, action in enumerate(self.actions, 1)]
        return "\n".join(lines)


def random_run(seed: int, folder: str) -> SimulatedRun:
    """The run of a seed."""
    return _Maker(seed, folder).make()


class _Maker:
    def __init__(self, seed: int, folder: str) -> None:
        self.random = Random(seed)
        self.seed = seed
        self.folder = folder
        self.salt = self.random.randrange(1_000)
        self.features: set[str] = set()
        self.waits = False  # whether a run is paused
        self.disturbances = 0  # each may cost a message an attempt

    def make(self) -> SimulatedRun:
        family = self.random.choices(
            ("chain", "branches", "diamond", "match", "pair", "split"), (26, 18, 14, 12, 18, 12)
        )[0]
        self.family = family
        self.first = self.shape = self._shape(family)
        self.messages: dict[Message, tuple[int, int]] = {}
        self.actions: list[Action] = []
        self._feed()
        for _ in range(self.random.choice((1, 1, 1, 2, 3))):
            self._happening()
        if self.waits:
            self._resume()
        self._do("drain")
        found = SimulatedRun(self.seed, self.shape, self.messages, self.actions, self.features)
        self._fail(found)
        return found

    # Topologies.

    def _shape(self, family: str) -> Shape:
        random = self.random
        spouts: tuple[str, ...] = ("a",)
        if family == "chain":
            nodes = [self._node("n1", ("a",))]
            for depth in range(2, 1 + random.choices((1, 2, 3, 4), (4, 4, 2, 1))[0]):
                nodes.append(self._node(f"n{depth}", (nodes[-1].name,)))
            published = [nodes[-1].name]
        elif family == "branches":
            nodes = [self._node("left", ("a",)), self._node("right", ("a",))]
            published = ["left", "right"]
            if random.random() < 0.5:
                nodes.append(self._node("both", ("left", "right")))
                published = ["both", random.choice(("left", "right"))]
        elif family == "diamond":
            nodes = [self._node("left", ("a",))]
            second = "a"
            if random.random() < 0.5:
                nodes.append(self._node("right", ("a",)))
                second = "right"
            nodes.append(self._node("join", ("left", second), "diamond"))
            published = ["join"]
            self.features.add("DataFrame join of branches")
        elif family == "match":
            spouts = ("a", "b")
            nodes = [self._node("join", ("a", "b"), "match")]
            published = ["join"]
            self.features.add("DataFrame join of messages")
        elif family == "pair":
            spouts = ("a", "b")
            nodes, inputs = [], ["a", "b"]
            if random.random() < 0.4:
                nodes.append(self._node("before", ("a",), fans=False))
                inputs[0] = "before"
            random.shuffle(inputs)
            nodes.append(self._node("join", tuple(inputs), "pair"))
            published = ["join"]
            self.features.add("rich join")
        else:
            nodes = [self._node("n1", ("a",), "split")]
            published = ["n1", "n1.odd"]
            if random.random() < 0.5:
                nodes.append(self._node("n2", ("n1.odd",)))
                published = [random.choice(("n1", "n1.odd")), "n2"]
            self.features.add("named stream")
        if family in _JOINS and random.random() < 0.4:
            nodes.append(self._node("after", ("join",)))
            published = ["after"]
        self.features.add(f"depth {self._depth(nodes)}")
        self.features |= {f"{node.kind} bolt" for node in nodes}
        return self._published(spouts, nodes, published)

    def _node(self, name: str, inputs: tuple[str, ...], kind: Any = None, fans: bool | None = None) -> Node:
        random = self.random
        kind = kind or random.choices(KINDS, (6, 2, 2))[0]
        fans = kind in (*KINDS, "split") and (random.random() < 0.6 if fans is None else fans)
        if fans:
            self.features.add("fan-out")
        tasks = random.choice((1, 2)) if kind in ("rich", "split", "pair") else 1
        return Node(name, kind, inputs, self.salt + sum(map(ord, name)), fans, tasks=tasks)

    @staticmethod
    def _depth(nodes: Sequence[Node]) -> int:
        depths: dict[str, int] = {}
        for node in nodes:
            depths[node.name] = 1 + max(depths.get(name.partition(".")[0], 0) for name in node.inputs)
        return max(depths.values())

    def _published(self, spouts: tuple[str, ...], nodes: list[Node], published: list[str]) -> Shape:
        random = self.random
        sums = [name for name in published if random.random() < 0.35]
        rows = [name for name in published if name not in sums]
        self.features |= {name for name, there in (("rows", rows), ("aggregates", sums)) if there}
        options: dict[str, Any] = {"message_timeout": None}
        if random.random() < 0.5:
            options = {"message_timeout": f"{TIMEOUT_SECONDS} seconds", "windows": random.choice((1, 2))}
            if random.random() < 0.6:
                options["hard_timeout"] = f"{TIMEOUT_SECONDS} seconds"
        if self.family not in _EVEN and random.random() < 0.2:
            options["max_pending"] = random.choice((2, 3))
            self.features.add("max_pending")
        if self.family not in _EVEN and random.random() < 0.2:
            options["batch_rows"] = random.choice((2, 3))
            self.features.add("batch_rows")
        untracked = 0
        if self.family in ("chain", "branches", "split") and random.random() < 0.15:
            untracked = random.choice((2, 3))
            self.features.add("untracked messages")
        delay = random.choice((0, 0, 5))
        tasks = 3 if self.seed % 2 else 0
        if tasks:
            self.features.add("tasks of the acker")
        names = (tuple(nodes), tuple(rows), tuple(sums))
        return Shape(self.folder, spouts, *names, untracked, options, 3, delay, acker_tasks=tasks)

    # What happens.

    def _feed(self) -> None:
        count = self.random.choice((1, 2, 3, 4, 5))
        done = len(self.messages) // len(self.shape.spouts)
        for number in range(done + 1, done + count + 1):
            large = self.random.random() < 0.01 and any(node.fans for node in self.shape.nodes)
            if large:
                self.features.add("fan-out of 1,000")
            for spout in self.shape.spouts:
                v = LARGE if large else self.random.randrange(MODULUS)
                self.messages[f"{spout}/{number}"] = (number, v)
        self.actions.append(Action("feed", count))

    def _do(self, what: str, at: int = 0, hit: Any = "kill", **options: Any) -> None:
        self.actions.append(Action("do", order=Order(what, at, hit, options)))

    def _resume(self) -> None:
        self.actions.append(Action("resume"))
        self.waits = False

    def _happening(self) -> None:
        happenings = {
            self._crash: 18,
            self._stopped: 14,
            self._late: 0 if self.waits or self.family in _EVEN else 18,
            self._twice: 10,
            self._more: 12 if not self.waits else 0,
            self._too_old: 14 if self._can_time_out() else 0,
            self._changed: 16 if self._can_change() else 0,
            self._replayed: 16,
            self._maintained: 12,
            self._copied: 10,
            self._refused: 14 if self._can_be_refused() else 0,
            self._dropped: 8 if not self.waits else 0,
            self._edited: 8 if not self.waits else 0,
        }
        self.random.choices(list(happenings), list(happenings.values()))[0]()
        if self.waits and self.random.random() < 0.6:
            self._do("cycle")
            self._resume()

    def _at(self) -> int:
        """A step of a cycle: three of each component, two of a fold, some of publishing."""
        return self.random.randint(1, 3 * (len(self.shape.spouts) + len(self.shape.nodes)) + 4)

    def _crash(self) -> None:
        self.features.add("crash")
        self._do("cycle", self._at(), self.random.choice(("kill", "kill", "kill later")))

    def _stopped(self) -> None:
        self.features.add("stopped run")
        self._do("cycle", self._at(), "stop")

    def _late(self) -> None:
        self.features.add("late run")
        self._do("cycle", self._at(), "pause")
        self.waits = True

    def _twice(self) -> None:
        self.features.add("step done twice")
        if self.family in _EVEN:
            names = [*self.shape.spouts, *(node.name for node in self.shape.nodes)]
        else:
            names = list(self.shape.spouts)
            names += [node.name for node in self.shape.nodes if self.random.random() < 0.7]
        for what, options in (("steps", {"names": names}), ("fold", {}), ("publish", {})):
            for _ in range(self.random.choice((1, 2))):
                self._do(what, **options)

    def _more(self) -> None:
        self._do("cycle")
        self._feed()

    def _can_time_out(self) -> bool:
        timeouts = self.shape.options["message_timeout"] is not None
        return timeouts and self.family != "match" and not self.shape.untracked

    def _too_old(self) -> None:
        self.features.add("timeout")
        self.disturbances += 1
        self._do("cycle", self._at(), "stop")
        self._do("age")

    def _replayed(self) -> None:
        self.features.add("replay by hand")
        self.disturbances += 1
        self._do("cycle")
        stops = {"at": self.random.choice((1, 2, 3)), "hit": "stop"} if self.random.random() < 0.3 else {}
        states = self.random.choice(((State.ACKED,), (State.ACKED, State.RETRYING)))
        if self.family == "match":  # what is joined must come in one batch
            stops, states = {}, (State.ACKED,)
        request = f"request {len(self.actions)}"
        limit = self.random.choice((1, 2, None))
        for _ in range(self.random.choice((1, 1, 2))):
            self._do("replay", **stops, states=states, positions=(), limit=limit, request=request)
            stops = {}

    def _maintained(self) -> None:
        self._do("cycle")
        if self.random.random() < 0.5:
            self.features.add("compact")
            self._do("compact")
            if self.random.random() < 0.15 and not self.waits:
                self.features.add("vacuum")
                self._do("vacuum", retention_hours=0)
        else:
            self.features.add("trim")
            self.disturbances += 1
            self.actions.append(Action("later", seconds=2 * 86_400))
            self._do("cycle")
            self._do("trim")

    def _copied(self) -> None:
        """A backup in the midst of a cycle, and a store that is made of it elsewhere and goes on."""
        self.features.add("backup")
        self._do("cycle", self._at(), self.random.choice(("stop", "kill")))
        number = len(self.actions)
        backup = f"{self.folder}/backup_{number}"
        self._do("back_up", to=backup)
        self.shape = replace(self.shape, place=f"copy_{number}/")
        self.actions.append(Action("become", shape=self.shape))
        self._do("restore", backup=backup)

    # What others do to published tables.

    def _can_be_refused(self) -> bool:
        """Where a message settles alone, and a row of no message is not the one that is refused."""
        return self.family in ("chain", "branches", "split", "diamond") and not (
            self.shape.untracked or self.waits
        )

    def _refused(self) -> None:
        """A table gets a rule that breaks for a message that is acked and not published."""
        self._do("drain")
        known = set(self.messages)
        self._feed()
        rows = streams(self.shape, self.messages)
        fresh = {key for message, (key, _) in self.messages.items() if message not in known}
        tables = (*self.shape.rows, *self.shape.sums)
        found = sorted((name, key) for name in tables for _, key, _ in rows[name] if key in fresh)
        self._do("acked")
        if found:
            self.features.add("refused after the ack")
            stream, key = self.random.choice(found)
            self.actions.append(Action("rule", stream=stream, key=key))
            self._do("publish", self.random.choice((0, 0, 1, 2)), self.random.choice(("stop", "kill")))

    def _dropped(self) -> None:
        self.features.add("table dropped")
        self._do("drain")
        is_again = "trim" not in self.features and self.random.random() < 0.6
        stream = self.random.choice((*self.shape.rows, *self.shape.sums))
        self.actions.append(Action("drop", stream=stream, key=int(is_again)))

    def _edited(self) -> None:
        self.features.add("table changed")
        self._do("drain")
        for _ in range(self.random.choice((1, 2, 3))):
            stream = self.random.choice((*self.shape.rows, *self.shape.sums))
            what = self.random.choice(("alter", "edit"))
            self.actions.append(Action(what, stream=stream, key=len(self.actions)))

    # Changes of the topology.

    def _can_change(self) -> bool:
        return self.family != "match" and not self.shape.untracked and "trim" not in self.features

    def _changed(self) -> None:
        self.features.add("change")
        self.disturbances += 1 + self.waits
        self._do("cycle", self._at(), self.random.choice(("stop", "kill")))
        shape = self.shape
        nodes = list(shape.nodes)
        published = {name.partition(".")[0] for name in (*shape.rows, *shape.sums)}
        inner = [n for n in nodes if n.name not in published]
        alike = [n for n in nodes if n.kind in KINDS]
        aside = [n for n in inner if n.name.startswith("aside")]
        ways = {
            "bolt added": 2,
            "bolt renamed": 3 if inner else 0,
            "bolt removed": 3 if aside else 0,
            "bolt of another kind": 2 if alike else 0,
        }
        way = self.random.choices(list(ways), list(ways.values()))[0]
        self.features.add(way)
        if way == "bolt added":
            stream = self.random.choice([*shape.spouts, *(node.name for node in nodes)])
            nodes.append(self._node(f"aside{len(self.actions)}", (stream,), fans=False))
        elif way == "bolt removed":
            nodes.remove(self.random.choice(aside))
        elif way == "bolt renamed":
            old = self.random.choice(inner)
            nodes = [_renamed(node, old.name, f"other{len(self.actions)}") for node in nodes]
        else:
            old = self.random.choice(alike)
            kind: Any = self.random.choice([kind for kind in KINDS if kind != old.kind])
            nodes[nodes.index(old)] = replace(old, kind=kind)
        self.shape = replace(shape, nodes=tuple(nodes))
        self.actions.append(Action("become", shape=self.shape))

    # What fails.

    def _fail(self, found: SimulatedRun) -> None:
        """Let bolts fail some messages, in all of the run's topologies, and say what becomes of them."""
        random = self.random
        rows = streams(self.shape, self.messages)
        every = self.shape.untracked
        untracked = {m for m, (key, _) in self.messages.items() if every and key % every == 0}
        fails: dict[int, dict[Message, int]] = {}  # by salt, which a bolt keeps when it is renamed
        worst: dict[Message, int] = {}
        groups = _groups(self.messages, rows)
        limit = self.disturbances
        bolts = [n for n in self.shape.nodes if not n.name.startswith("aside")]
        rate = random.choice((0, 0, 0.25, 0.5))
        # A message whose partner never comes would take up its room for ever.
        may_die = self.disturbances <= 1 and "max_pending" not in self.features and random.random() < 0.7
        for group in groups:
            if random.random() >= rate or group & untracked:
                continue
            message = random.choice(sorted(group))
            at = [n for n in bolts if self._may_fail(n) and message in _can_fail(n, rows)]
            if not at:
                continue
            style = random.choice(("dies", "used up")) if may_die and random.random() < 0.5 else "passes"
            count = {"dies": NEVER, "used up": -1, "passes": random.choice((1, 1, 1, 2))}[style]
            if style == "used up" and len(group) > 1:
                count = NEVER
            fails.setdefault(random.choice(at).salt, {})[message] = count
            worst[message] = count
            if count > 0 and count < NEVER:
                limit = max(limit, count + self.disturbances)
                self.features.add("transient failure")
        limit = max(limit + 1, random.choice((0, 1, 2)) if may_die else 3)
        for group in groups:
            count = max((worst.get(m, 0) for m in group), default=0)
            used_up = any(worst.get(m) == -1 for m in group)
            if used_up:
                found.revived |= group
                self.features.add("attempts used up")
            elif count == NEVER:
                self.features.add("permanent failure")
                found.dead |= {m for m in group if worst.get(m) == NEVER}
            else:
                found.acked |= group
        for limits in fails.values():
            for message, count in limits.items():
                if count == -1:
                    limits[message] = limit + 1
        raises = {salt for salt in fails if random.random() < 0.15 and len(fails[salt]) < 3}
        if any(n.salt in raises and n.kind in ("map", *_JOINS[:2]) for n in self.shape.nodes):
            self.features.add("Spark raises")

        def mended(shape: Shape) -> Shape:
            nodes = [
                replace(n, fails=fails[n.salt], raises=n.salt in raises) if n.salt in fails else n
                for n in shape.nodes
            ]
            return replace(shape, nodes=tuple(nodes), limit=limit)

        found.actions = [
            replace(action, shape=mended(action.shape)) if action.shape else action for action in self.actions
        ]
        found.shape = mended(self.first)
        if found.revived:
            states = (State.DEAD_LETTER,)
            request = Order(
                "replay", options={"states": states, "positions": (), "limit": None, "request": "end"}
            )
            found.actions += [Action("do", order=request), Action("do", order=Order("drain"))]

    def _may_fail(self, node: Node) -> bool:
        return self.family != "match" or node.kind in ("match", *KINDS)


def _renamed(node: Node, old: str, new: str) -> Node:
    inputs = tuple(
        new + name.removeprefix(old) if name.partition(".")[0] == old else name for name in node.inputs
    )
    return replace(node, name=new if node.name == old else node.name, inputs=inputs)


def _can_fail(node: Node, rows: dict[str, list[Row]]) -> set[Message]:
    """The messages whose tuples a bolt can fail: those that it takes in, or that it joins as DataFrames."""
    names = (node.name,) if node.kind in _EVEN else node.inputs
    return {message for name in names for who, _, _ in rows[name] for message in who.split("+")}


def _groups(messages: Any, rows: dict[str, list[Row]]) -> list[set[Message]]:
    """Messages that share tuples, in groups; others alone."""
    groups: dict[Message, set[Message]] = {message: {message} for message in messages}
    for found in rows.values():
        for who, _, _ in found:
            several = who.split("+")
            both = set().union(*(groups[message] for message in several))
            groups |= dict.fromkeys(both, both)
    return list({id(group): group for group in groups.values()}.values())

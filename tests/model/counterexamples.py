"""For each rule a small world in which something breaks without it, and the rules that have no such world.

`also` names further rules that have to go before the rule is the last line of defence.
"""

from typing import NamedTuple

from tests.model import scenarios as has
from tests.model.world import Bolt, Hand, Scenario, Topology

_A_MAY_FAIL = frozenset({("a", 1)})
_B_MAY_FAIL = frozenset({("b", 1)})


class Counterexample(NamedTuple):
    """What to leave out, and where something breaks then."""

    rule: str
    world: Scenario
    also: tuple[str, ...] = ()
    wanted: str = ""  # of several faults, the one to show


_BACKUP, _MOVE = frozenset({"backup"}), frozenset({"move"})

_READS_TWO = Topology(("s", "z"), (Bolt("a", ("s", "z")), Bolt("b", ("a",))), {"t": "b"})
_READS_ONE = Topology(("s",), (Bolt("a", ("s",)), Bolt("b", ("a",))), {"t": "b"})
_MORE = Topology(("s",), (Bolt("a", ("s",)), Bolt("b", ("s",))), {"t": "a"})
_GONE = Topology((), (Bolt("a", ("s",)),), {"t": "a"})
_ALSO_Q = Topology(("p", "q"), (Bolt("j", ("p", "q"), "join"), Bolt("r", ("q",))), {"t": "j"})
_LATER = Topology(("s",), (Bolt("a", ("s",), "later"),), {"t": "a"})

_FIRST = frozenset({("t", 1)})
_REFUSED = Scenario("", (has.SHORT,), has.ONE, processes=1, refused=_FIRST)
_REFUSED_ONCE = Scenario("", (has.TWO_TABLES,), has.ONE, processes=1, refused=_FIRST)
_REFUSED_AND_REPLAYED = Scenario(
    "",
    (has.TABLE_AND_SUMS,),
    has.ONE,
    processes=1,
    begin=("run s", "run a", "run b", "fold", "publish u"),
    refused=_FIRST,
    hands=(Hand(("acked", "dead letter")),),
    attempts=3,
)

ALL = (
    Counterexample("logged batches", Scenario("", (has.SHORT,), has.ONE, spotless=True)),
    Counterexample("edges", Scenario("", (has.SHORT, _MORE), has.ONE, processes=1)),
    Counterexample("journal's row", Scenario("", (has.SHORT,), has.TWO, read=1, spotless=True)),
    Counterexample("one batch", Scenario("", (has.SHORT,), has.TWO, read=1, processes=1)),
    Counterexample("append once", Scenario("", (has.SHORT,), has.ONE), wanted="double"),
    Counterexample("log once", Scenario("", (has.SHORT,), has.ONE)),
    Counterexample("committed rows", Scenario("", (has.SHORT,), has.ONE, processes=1, bad=_A_MAY_FAIL)),
    Counterexample("one commit", Scenario("", (has.LINE,), has.ONE, processes=1), wanted="false ack"),
    Counterexample(
        "positions", Scenario("", (_READS_TWO, _READS_ONE, _READS_TWO), {"s": 1, "z": 1}, processes=1)
    ),
    Counterexample("given up", Scenario("", (has.SHORT,), has.ONE, processes=1, ops=frozenset({"give up"}))),
    Counterexample(
        "given up held",
        Scenario("", (has.MATCH,), has.PAIR, processes=1, patient=False, ops=frozenset({"give up"})),
    ),
    Counterexample("held", Scenario("", (has.MATCH,), has.PAIR, processes=1)),
    Counterexample(
        "held mark",
        Scenario("", (_LATER,), has.TWO, read=1, processes=1, patient=False, bad=frozenset({("a", 2)})),
    ),
    Counterexample("one version", Scenario("", (has.SHORT,), has.ONE, patient=False, ticks=1)),
    Counterexample("waiting", Scenario("", (has.SHORT,), has.ONE, processes=1, patient=False, ticks=1)),
    Counterexample("fold once", Scenario("", (has.SHORT,), has.ONE, spotless=True)),
    Counterexample("fold's position", Scenario("", (has.SHORT,), has.ONE, processes=1, spotless=True)),
    Counterexample("fail first", Scenario("", (has.SHORT,), has.ONE, processes=1, bad=_A_MAY_FAIL)),
    Counterexample(
        "for good",
        Scenario("", (has.SHORT,), has.ONE, processes=1, bad=_A_MAY_FAIL, rejected=_A_MAY_FAIL),
    ),
    Counterexample(
        "one init", Scenario("", (has.SHORT,), has.ONE, bad=_A_MAY_FAIL), ("root's batch", "seen")
    ),
    Counterexample(
        "superseded", Scenario("", (has.SHORT,), has.ONE, hands=(Hand(("acked",)),)), ("in flight alone",)
    ),
    Counterexample("retrying apart", Scenario("", (has.SHORT,), has.ONE, processes=1, bad=_A_MAY_FAIL)),
    Counterexample("together", Scenario("", (_ALSO_Q,), has.PAIR, processes=1, bad=frozenset({("r", 1)}))),
    Counterexample(
        "settled partner", Scenario("", (has.MATCH,), has.PAIR, processes=1, patient=False, ticks=1)
    ),
    Counterexample("spout gone", Scenario("", (has.SHORT, _GONE), has.ONE, processes=1, bad=_A_MAY_FAIL)),
    Counterexample("retire", Scenario("", (has.LINE, has.SHORT), has.ONE, processes=1)),
    Counterexample("one journal", Scenario("", (has.SHORT,), has.ONE, bad=_A_MAY_FAIL)),
    Counterexample("seen", Scenario("", (has.SHORT,), has.ONE, bad=_A_MAY_FAIL)),
    Counterexample(
        "partners",
        Scenario(
            "", (has.ALL,), has.TWO, settled_first=True, processes=1, hands=(Hand(("acked",), (("s", 2),)),)
        ),
    ),
    Counterexample(
        "replaced together",
        Scenario("", (has.JOIN,), has.PAIR, settled_first=True, processes=1, hands=(Hand(("acked",)),)),
    ),
    Counterexample(
        "all or none",
        Scenario("", (has.JOIN,), has.PAIR, settled_first=True, processes=1, hands=(Hand(("acked",)),)),
    ),
    Counterexample("root's batch", Scenario("", (has.SHORT,), has.ONE, bad=_A_MAY_FAIL), ("seen",)),
    Counterexample("hand looks", Scenario("", (has.SHORT,), has.TWO, read=1, hands=(Hand(("acked",)),))),
    Counterexample(
        "pinned",
        Scenario(
            "",
            (has.LINE,),
            has.ONE,
            settled_first=True,
            hands=(Hand(("acked",)), Hand(("acked",))),
            ops=frozenset({"compact"}),
            attempts=3,
        ),
    ),
    Counterexample(
        "pinned",
        Scenario(
            "",
            (has.MATCH,),
            has.PAIR,
            patient=False,
            begin=("run p", "run m", "fold"),
            ops=frozenset({"trim", "compact"}),
        ),
        ("trim looks again",),
    ),
    Counterexample("target's txn", Scenario("", (has.SHORT,), has.ONE)),
    Counterexample(
        "replace",
        Scenario("", (has.SHORT,), has.ONE, settled_first=True, processes=1, hands=(Hand(("acked",)),)),
    ),
    Counterexample("refusal first", _REFUSED),
    Counterexample("left out", _REFUSED),
    Counterexample("refused partners", Scenario("", (has.JOIN,), has.PAIR, processes=1, refused=_FIRST)),
    Counterexample("refused everywhere", _REFUSED_ONCE),
    Counterexample("leaves once", _REFUSED_AND_REPLAYED),
    Counterexample("never there", Scenario("", (has.SUMS,), has.ONE, processes=1, refused=_FIRST)),
    Counterexample("later attempt", _REFUSED_AND_REPLAYED),
    Counterexample(
        "trim refused",
        Scenario(
            "",
            (has.TABLE_AND_SUMS,),
            has.ONE,
            processes=1,
            begin=("run s", "run a", "run b"),
            refused=_FIRST,
            ops=frozenset({"trim"}),
        ),
    ),
    Counterexample(
        "standing",
        Scenario("", (has.SHORT,), has.ONE, settled_first=True, processes=1, ops=frozenset({"drop", "trim"})),
    ),
    Counterexample(
        "strangers",
        Scenario("", (has.SHORT,), has.ONE, settled_first=True, processes=1, ops=frozenset({"away"})),
    ),
    Counterexample(
        "strangers",
        Scenario("", (has.SHORT,), has.ONE, processes=1, begin=("run s", "run a"), ops=frozenset({"beside"})),
    ),
    Counterexample(
        "learns",
        Scenario("", (has.SHORT,), has.TWO, read=1, processes=1, ops=frozenset({"drop", "again"})),
        wanted="loss",
    ),
    Counterexample(
        "trim known",
        Scenario("", (has.SHORT,), has.ONE, processes=1, ops=frozenset({"drop", "trim"})),
    ),
    Counterexample(
        "trim settled", Scenario("", (has.MATCH,), has.PAIR, processes=1, ops=frozenset({"trim"}))
    ),
    Counterexample(
        "trim published", Scenario("", (has.SHORT,), has.ONE, processes=1, ops=frozenset({"trim"}))
    ),
    Counterexample(
        "trim taken",
        Scenario(
            "",
            (has.LINE,),
            has.TWO,
            read=1,
            untracked=frozenset({("s", 1)}),
            processes=1,
            ops=frozenset({"trim"}),
        ),
    ),
    Counterexample(
        "trim replaced",
        Scenario(
            "",
            (has.SUMS,),
            has.ONE,
            settled_first=True,
            processes=1,
            hands=(Hand(("acked",)),),
            ops=frozenset({"trim"}),
        ),
    ),
    Counterexample(
        "trim looks again",
        Scenario(
            "", (has.SUMS,), has.ONE, settled_first=True, hands=(Hand(("acked",)),), ops=frozenset({"trim"})
        ),
    ),
    Counterexample(
        "late replay",
        Scenario(
            "", (has.SUMS,), has.ONE, settled_first=True, hands=(Hand(("acked",)),), ops=frozenset({"trim"})
        ),
    ),
    Counterexample(
        "trim untracked",
        Scenario(
            "",
            (has.MATCH,),
            has.PAIR,
            processes=1,
            untracked=frozenset({("p", 1), ("q", 1)}),
            ops=frozenset({"trim"}),
        ),
    ),
    Counterexample("max_pending", Scenario("", (has.MATCH,), has.PAIR, processes=1, max_pending=1)),
    Counterexample(
        "in flight alone", Scenario("", (has.SHORT,), has.ONE, hands=(Hand(("acked",)),)), ("superseded",)
    ),
    Counterexample("backup order", Scenario("", (has.SHORT,), has.ONE, processes=1, ops=_BACKUP)),
    Counterexample(
        "backup order",
        Scenario("", (has.SHORT,), has.ONE, processes=1, begin=("run s", "run a"), ops=_BACKUP),
        wanted="not acked",
    ),
    Counterexample(
        "backup looks again",
        Scenario(
            "",
            (has.SHORT,),
            has.ONE,
            processes=1,
            begin=("run s", "run a", "fold"),
            ops=frozenset({"backup", "trim"}),
        ),
    ),
    Counterexample("backup of a moment", Scenario("", (has.SHORT,), has.ONE, processes=1, ops=_BACKUP)),
    Counterexample(
        "backup of a moment",
        Scenario("", (has.SHORT,), has.ONE, processes=1, begin=("run s",), bad=_A_MAY_FAIL, ops=_BACKUP),
    ),
    Counterexample(
        "closed",
        Scenario("", (has.SHORT,), has.ONE, processes=1, begin=("run s", "run a"), ops=_MOVE),
        ("strangers",),
    ),
    Counterexample(
        "own id",
        Scenario("", (has.SHORT,), has.TWO, read=1, processes=1, begin=("run s", "run a"), ops=_MOVE),
        ("closed",),
    ),
)

# Rules that nothing breaks without, in the protocol's present form.
UNNEEDED = {
    "count": "ids are symbols here, and cancel only where one was consumed; for 64-bit ids or damaged ones "
    "the count is the second proof",
    "one refusal": "a root that two records name is refused once; that nothing was recorded meanwhile only "
    "saves work",
    "nothing to replace": "what was refused leaves each table once, whatever is to replace it; without the "
    "rule a replay of it would be refused where a table cannot take back",
    "won": "whoever follows the other's batch finishes what the journal says; leaving only saves work",
}

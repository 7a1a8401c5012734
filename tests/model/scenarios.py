"""Small worlds, each with what it is about."""

from tests.model.world import Bolt, Hand, Scenario, Topology

LINE = Topology(("s",), (Bolt("a", ("s",)), Bolt("b", ("a",))), {"t": "b"})
SHORT = Topology(("s",), (Bolt("a", ("s",)),), {"t": "a"})
DIAMOND = Topology(("s",), (Bolt("a", ("s",)), Bolt("b", ("s",))), {"t": "a", "u": "b"})
JOIN = Topology(("p", "q"), (Bolt("j", ("p", "q"), "join"),), {"t": "j"})
JOIN_THEN = Topology(("p", "q"), (Bolt("j", ("p", "q"), "join"), Bolt("r", ("q",))), {"t": "j"})
ALL = Topology(("s",), (Bolt("a", ("s",), "all"),), {"t": "a"})
MATCH = Topology(("p", "q"), (Bolt("m", ("p", "q"), "match"),), {"t": "m"})
MATCH_THEN = Topology(("p", "q"), (Bolt("m", ("p", "q"), "match"), Bolt("b", ("m",))), {"t": "b"})
SUMS = Topology(("s",), (Bolt("a", ("s",)),), {"t": "a"}, sums=("t",))

NO_A = Topology(("s",), (Bolt("b", ("s",)),), {"t": "b"})
ALSO_B = Topology(("s",), (Bolt("a", ("s",)), Bolt("b", ("s",))), {"t": "a"})
NO_MATCH = Topology(("p", "q"), (Bolt("m", ("p", "q")),), {"t": "m"})
NO_Q = Topology(("p", "q"), (Bolt("m", ("p",), "match", 1), Bolt("n", ("q",))), {"t": "m"})
NOBODY = Topology((), (Bolt("a", ("s",)),), {"t": "a"})

ONE = {"s": 1}
TWO = {"s": 2}
PAIR = {"p": 1, "q": 1}

_A_AND_B = frozenset({("a", 1), ("b", 1)})

SMALL = (
    Scenario("a line, crashes", (LINE,), TWO, read=1, processes=1, spotless=True),
    Scenario("a line, doubled runs", (LINE,), ONE, spotless=True),
    Scenario("a line, a failure, doubled runs", (LINE,), ONE, bad=frozenset({("b", 1)})),
    Scenario("a line, timeouts", (LINE,), ONE, patient=False, ticks=1),
    Scenario("two messages, doubled runs", (SHORT,), TWO, read=1, spotless=True),
    Scenario("two messages, one fails", (SHORT,), TWO, bad=frozenset({("a", 1)})),
    Scenario("one fails for good", (LINE,), ONE, bad=_A_AND_B, rejected=frozenset({("b", 1)})),
    Scenario("two readers, two tables", (DIAMOND,), ONE, processes=1, bad=frozenset({("b", 1)})),
    Scenario("two readers, doubled runs", (DIAMOND,), ONE, spotless=True),
    Scenario("gone from the source", (SHORT,), ONE, bad=frozenset({("a", 1)}), gone=frozenset({("s", 1)})),
    Scenario("a batch is given up", (LINE,), ONE, ops=frozenset({"give up"}), attempts=2),
    Scenario("joined", (JOIN,), PAIR, processes=1, bad=frozenset({("j", 1)})),
    Scenario(
        "one of two that are joined fails for good",
        (JOIN_THEN,),
        PAIR,
        processes=1,
        bad=frozenset({("j", 1), ("r", 1)}),
        rejected=frozenset({("r", 1)}),
    ),
    Scenario("joined, doubled runs", (JOIN,), PAIR, spotless=True),
    Scenario("matched across batches", (MATCH,), PAIR, processes=1, bad=frozenset({("m", 1)}), patient=False),
    Scenario("matched, doubled runs", (MATCH,), PAIR, spotless=True),
    Scenario("matched, timeouts", (MATCH,), PAIR, processes=1, patient=False, ticks=1, attempts=3),
    Scenario("matched, then one more bolt", (MATCH_THEN,), PAIR, processes=1, spotless=True),
    Scenario("matched, given up", (MATCH,), PAIR, processes=1, patient=False, ops=frozenset({"give up"})),
    Scenario("matched, max_pending 1", (MATCH,), PAIR, processes=1, max_pending=1, spotless=True),
    Scenario("a line, max_pending 1", (SHORT,), TWO, max_pending=1, bad=frozenset({("a", 1)})),
    Scenario("a bolt removed", (LINE, NO_A), ONE, processes=1),
    Scenario("a bolt removed, doubled runs", (LINE, NO_A), ONE, attempts=2),
    Scenario("a bolt added", (SHORT, ALSO_B), ONE),
    Scenario("a bolt removed and back", (ALSO_B, SHORT, ALSO_B), ONE, processes=1),
    Scenario("a spout removed", (SHORT, NOBODY), ONE, bad=frozenset({("a", 1)})),
    Scenario("a rich bolt becomes another", (MATCH, NO_MATCH), PAIR, processes=1, attempts=3, patient=False),
    Scenario(
        "untracked",
        (LINE,),
        TWO,
        untracked=frozenset({("s", 2)}),
        processes=1,
        ops=frozenset({"trim"}),
        read=1,
    ),
    Scenario(
        "untracked, matched, trimmed",
        (MATCH,),
        PAIR,
        untracked=frozenset({("p", 1), ("q", 1)}),
        processes=1,
        ops=frozenset({"trim"}),
    ),
    Scenario(
        "trimmed", (LINE,), ONE, ops=frozenset({"trim", "compact"}), bad=frozenset({("b", 1)}), processes=1
    ),
    Scenario("trimmed, doubled runs", (SHORT,), ONE, ops=frozenset({"trim", "compact"})),
    Scenario("sums", (SUMS,), ONE, bad=frozenset({("a", 1)})),
    Scenario("by hand, rows", (SHORT,), ONE, hands=(Hand(("acked",)),), settled_first=True),
    Scenario(
        "by hand, twice",
        (SHORT,),
        ONE,
        hands=(Hand(("acked",)), Hand(("acked",))),
        settled_first=True,
        attempts=3,
    ),
    Scenario(
        "by hand, sums, fails",
        (SUMS,),
        ONE,
        hands=(Hand(("acked",)),),
        settled_first=True,
        bad=frozenset({("a", 1)}),
        attempts=3,
    ),
    Scenario(
        "by hand, sums, trimmed",
        (SUMS,),
        ONE,
        hands=(Hand(("acked",)),),
        settled_first=True,
        processes=1,
        ops=frozenset({"trim", "compact"}),
    ),
    Scenario(
        "by hand, joined",
        (JOIN,),
        PAIR,
        hands=(Hand(("acked",)),),
        settled_first=True,
        processes=1,
        bad=frozenset({("j", 1)}),
        gone=frozenset({("q", 1)}),
        attempts=3,
    ),
    Scenario(
        "by hand, joined, again",
        (JOIN,),
        PAIR,
        hands=(Hand(("acked", "dead letter")), Hand(("acked", "dead letter"), (("p", 1),))),
        settled_first=True,
        processes=1,
        bad=frozenset({("j", 1)}),
        attempts=2,
    ),
    Scenario(
        "by hand, matched",
        (MATCH,),
        PAIR,
        hands=(Hand(("acked",), (("p", 1),)),),
        settled_first=True,
        patient=False,
        processes=1,
    ),
)

_REFUSED = frozenset({("t", 1)})
TWO_TABLES = Topology(("s",), (Bolt("a", ("s",)), Bolt("b", ("s",))), {"t": "a", "u": "b"})
TABLE_AND_SUMS = Topology(TWO_TABLES.spouts, TWO_TABLES.bolts, TWO_TABLES.targets, sums=("u",))
SUMS_AND_TABLE = Topology(TWO_TABLES.spouts, TWO_TABLES.bolts, TWO_TABLES.targets, sums=("t", "u"))

# A table that refuses what was acked.
REFUSED = (
    Scenario("refused", (SHORT,), ONE, refused=_REFUSED),
    Scenario("refused, one of two", (ALL,), TWO, refused=_REFUSED),
    Scenario("refused, by one of two tables", (TWO_TABLES,), ONE, processes=1, refused=_REFUSED),
    Scenario("refused, then sums", (TABLE_AND_SUMS,), ONE, processes=1, refused=_REFUSED),
    Scenario("refused by both", (SUMS_AND_TABLE,), ONE, processes=1, refused=frozenset({("t", 1), ("u", 1)})),
    Scenario("refused, joined", (JOIN,), PAIR, processes=1, refused=_REFUSED),
    Scenario(
        "refused, by hand",
        (SUMS,),
        ONE,
        attempts=3,
        refused=_REFUSED,
        hands=(Hand(("acked", "dead letter")), Hand(("acked", "dead letter"))),
    ),
    Scenario(
        "refused, sums, by hand",
        (TABLE_AND_SUMS,),
        ONE,
        attempts=3,
        processes=1,
        begin=("run s", "run a", "run b", "fold", "publish u"),
        refused=_REFUSED,
        hands=(Hand(("acked", "dead letter")), Hand(("acked", "dead letter"))),
        bad=frozenset({("a", 1)}),
    ),
    Scenario(
        "refused, sums, trimmed",
        (TABLE_AND_SUMS,),
        ONE,
        processes=1,
        begin=("run s", "run a", "run b"),
        refused=_REFUSED,
        ops=frozenset({"trim", "compact"}),
    ),
    Scenario(
        "refused, doubled",
        (TABLE_AND_SUMS,),
        ONE,
        begin=("run s", "run a", "run b", "fold"),
        refused=_REFUSED,
        hands=(Hand(("acked", "dead letter")),),
    ),
    Scenario("refused, backed up", (SHORT,), ONE, processes=1, refused=_REFUSED, ops=frozenset({"backup"})),
)

WIDE = Topology(
    ("p", "q"),
    (Bolt("a", ("p",)), Bolt("m", ("a", "q"), "match"), Bolt("b", ("m",)), Bolt("c", ("p",))),
    {"t": "b"},
    ("t",),
)
WIDE_ROWS = Topology(WIDE.spouts, WIDE.bolts, {"t": "b"})
NO_C = Topology(
    ("p", "q"), (Bolt("a", ("p",)), Bolt("m", ("a", "q"), "match"), Bolt("b", ("m",))), {"t": "b"}
)
NO_M = Topology(("p", "q"), (Bolt("a", ("p",)), Bolt("m", ("a", "q")), Bolt("b", ("m",))), {"t": "b"})
OTHER = Topology(
    ("p", "q"), (Bolt("a", ("p",)), Bolt("n", ("a", "q"), "match"), Bolt("b", ("n",))), {"t": "b"}
)
TWOS = {"p": 2, "q": 2}
WIDE_TABLES = Topology(WIDE.spouts, WIDE.bolts, {"t": "b", "u": "b"}, ("u",))
_ANY = frozenset({("a", 1), ("m", 2), ("b", 1), ("c", 2)})
_ALL = frozenset({"give up", "trim", "compact"})

_BACKUP = frozenset({"backup"})
_HELD = ("run p", "run m")  # a tuple is held back
RENAMED = Topology(("p", "q"), (Bolt("n", ("p", "q"), "match"), Bolt("b", ("n",))), {"t": "b"})

# With two runs at work these are too large to be explored to the end, and begin where it matters.
DOUBLED = (
    Scenario("held back, given up", (MATCH,), PAIR, begin=_HELD, patient=False, ops=frozenset({"give up"})),
    Scenario("held back, another kind of bolt", (MATCH, NO_MATCH), PAIR, begin=_HELD, patient=False),
    Scenario("held back, bolt renamed", (MATCH_THEN, RENAMED), PAIR, begin=_HELD, patient=False),
    Scenario(
        "held back, trimmed",
        (MATCH,),
        PAIR,
        begin=_HELD,
        patient=False,
        ticks=1,
        ops=frozenset({"trim", "compact"}),
    ),
    Scenario(
        "by hand, twice, matched",
        (MATCH,),
        PAIR,
        settled_first=True,
        patient=False,
        hands=(Hand(("acked",), (("p", 1),)), Hand(("acked", "dead letter"))),
        attempts=3,
        bad=frozenset({("m", 1)}),
    ),
    Scenario("by hand, joined, doubled", (JOIN,), PAIR, settled_first=True, hands=(Hand(("acked",)),) * 2),
    Scenario(
        "by hand, sums, trimmed, doubled",
        (SUMS,),
        ONE,
        settled_first=True,
        hands=(Hand(("acked",)),),
        ops=frozenset({"trim"}),
        bad=frozenset({("a", 1)}),
    ),
    Scenario(
        "by hand and due",
        (SHORT,),
        TWO,
        read=1,
        begin=("run s", "run a", "fold"),
        bad=frozenset({("a", 1)}),
        hands=(Hand(("retrying", "dead letter", "acked")),),
        attempts=3,
    ),
)

# A copy, and what it becomes.
COPIED = (
    Scenario("backed up", (SHORT,), ONE, processes=1, bad=frozenset({("a", 1)}), ops=_BACKUP),
    Scenario("backed up, a line", (LINE,), ONE, processes=1, spotless=True, ops=_BACKUP),
    Scenario(
        "backed up, trimmed",
        (SUMS,),
        ONE,
        processes=1,
        begin=("run s", "run a"),
        ops=frozenset({"backup", "trim", "compact"}),
    ),
    Scenario(
        "backed up, by hand",
        (SHORT,),
        ONE,
        settled_first=True,
        processes=1,
        hands=(Hand(("acked",)),),
        ops=_BACKUP,
    ),
    Scenario(
        "backed up, joined, by hand",
        (JOIN,),
        PAIR,
        settled_first=True,
        processes=1,
        hands=(Hand(("acked",)),),
        ops=_BACKUP,
    ),
    Scenario("backed up, doubled runs", (SHORT,), ONE, bad=frozenset({("a", 1)}), ops=_BACKUP),
    Scenario("moved", (SHORT,), TWO, read=1, processes=1, bad=frozenset({("a", 1)}), ops=frozenset({"move"})),
    Scenario("a copy beside the original", (SHORT,), TWO, read=1, processes=1, ops=frozenset({"beside"})),
    Scenario("a table dropped", (SHORT,), TWO, read=1, processes=1, ops=frozenset({"drop", "again"})),
    Scenario("a table dropped, doubled runs", (SHORT,), ONE, ops=frozenset({"drop", "again"})),
    Scenario("a table dropped, trimmed", (SHORT,), ONE, processes=1, ops=frozenset({"drop", "trim"})),
    Scenario("a store away", (SHORT,), TWO, read=1, processes=1, ops=frozenset({"away"})),
)

LARGE = (
    Scenario(
        "everything but changes",
        (WIDE_ROWS,),
        TWOS,
        read=1,
        patient=False,
        ticks=2,
        attempts=3,
        bad=_ANY,
        processes=3,
        ops=_ALL,
        gone=frozenset({("p", 2)}),
        max_pending=2,
    ),
    Scenario(
        "everything, a bolt added and removed",
        (NO_C, WIDE_ROWS, NO_C),
        TWOS,
        read=1,
        patient=False,
        ticks=2,
        attempts=3,
        bad=_ANY,
        processes=3,
        ops=_ALL,
    ),
    Scenario(
        "everything, a rich bolt replaced",
        (WIDE_ROWS, NO_M, NO_C),
        TWOS,
        read=1,
        patient=False,
        ticks=2,
        attempts=3,
        bad=_ANY,
        processes=3,
        ops=_ALL,
    ),
    Scenario(
        "everything, a rich bolt renamed",
        (NO_C, OTHER, NO_C),
        TWOS,
        read=1,
        patient=False,
        ticks=2,
        attempts=3,
        bad=_ANY,
        processes=3,
        ops=_ALL,
    ),
    Scenario(
        "everything, untracked",
        (NO_C,),
        TWOS,
        untracked=frozenset({("p", 1), ("q", 1)}),
        read=1,
        patient=False,
        ticks=2,
        attempts=3,
        bad=frozenset({("b", 2)}),
        processes=3,
        ops=frozenset({"trim", "compact"}),
    ),
    Scenario(
        "sums, by hand",
        (WIDE,),
        TWOS,
        read=1,
        patient=False,
        ticks=2,
        attempts=3,
        bad=_ANY,
        processes=2,
        hands=(Hand(("acked", "dead letter")),),
    ),
    Scenario(
        "rows, by hand",
        (WIDE_ROWS,),
        TWOS,
        read=1,
        patient=False,
        ticks=2,
        attempts=4,
        bad=_ANY,
        processes=3,
        hands=(Hand(("acked", "dead letter", "lost", "retrying")), Hand(("acked",), (("p", 1),))),
        ops=frozenset({"trim", "compact"}),
    ),
    Scenario(
        "everything, refused",
        (WIDE_TABLES,),
        TWOS,
        read=1,
        patient=False,
        ticks=2,
        attempts=4,
        bad=_ANY,
        refused=frozenset({("t", 1), ("u", 2)}),
        processes=3,
        hands=(Hand(("acked", "dead letter", "lost", "retrying")), Hand(("acked", "dead letter"))),
        ops=_ALL,
    ),
    Scenario(
        "everything, backed up",
        (WIDE_ROWS,),
        TWOS,
        read=1,
        patient=False,
        ticks=2,
        attempts=3,
        bad=_ANY,
        processes=3,
        hands=(Hand(("acked", "dead letter")),),
        ops=_ALL | _BACKUP,
    ),
)

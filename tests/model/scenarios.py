"""Small worlds, each with what it is about."""

from tests.model.world import Bolt, Hand, Scenario, Topology

LINE = Topology(("s",), (Bolt("a", ("s",)), Bolt("b", ("a",))), {"t": "b"})
SHORT = Topology(("s",), (Bolt("a", ("s",)),), {"t": "a"})
DIAMOND = Topology(("s",), (Bolt("a", ("s",)), Bolt("b", ("s",))), {"t": "a", "u": "b"})
JOIN = Topology(("p", "q"), (Bolt("j", ("p", "q"), "join"),), {"t": "j"})
MATCH = Topology(("p", "q"), (Bolt("m", ("p", "q"), "match"),), {"t": "m"})
MATCH_THEN = Topology(("p", "q"), (Bolt("m", ("p", "q"), "match"), Bolt("b", ("m",))), {"t": "b"})
SUMS = Topology(("s",), (Bolt("a", ("s",)),), {"t": "a"}, sums=("t",))

ONE = {"s": 1}
TWO = {"s": 2}
PAIR = {"p": 1, "q": 1}

SMALL = (
    Scenario("a line, crashes", (LINE,), TWO, read=1, processes=1, spotless=True),
    Scenario("a line, doubled runs", (LINE,), ONE, spotless=True),
    Scenario("a line, a failure, doubled runs", (LINE,), ONE, bad=frozenset({("b", 1)})),
    Scenario("a line, timeouts", (LINE,), ONE, patient=False, ticks=1),
    Scenario("two messages, doubled runs", (SHORT,), TWO, read=1, spotless=True),
    Scenario("two messages, one fails", (SHORT,), TWO, bad=frozenset({("a", 1)})),
    Scenario("two readers, two tables", (DIAMOND,), ONE, processes=1, bad=frozenset({("b", 1)})),
    Scenario("two readers, doubled runs", (DIAMOND,), ONE, spotless=True),
    Scenario("gone from the source", (SHORT,), ONE, bad=frozenset({("a", 1)}), gone=frozenset({("s", 1)})),
    Scenario("a batch is given up", (LINE,), ONE, ops=frozenset({"give up"}), attempts=2),
    Scenario("joined", (JOIN,), PAIR, processes=1, bad=frozenset({("j", 1)})),
    Scenario("joined, doubled runs", (JOIN,), PAIR, spotless=True),
    Scenario("matched across batches", (MATCH,), PAIR, processes=1, bad=frozenset({("m", 1)}), patient=False),
    Scenario("matched, doubled runs", (MATCH,), PAIR, spotless=True),
    Scenario("matched, timeouts", (MATCH,), PAIR, processes=1, patient=False, ticks=1, attempts=3),
    Scenario("matched, then one more bolt", (MATCH_THEN,), PAIR, processes=1, spotless=True),
    Scenario("matched, given up", (MATCH,), PAIR, processes=1, patient=False, ops=frozenset({"give up"})),
    Scenario("matched, max_pending 1", (MATCH,), PAIR, processes=1, max_pending=1, spotless=True),
    Scenario("a line, max_pending 1", (SHORT,), TWO, max_pending=1, bad=frozenset({("a", 1)})),
    Scenario("untracked", (LINE,), TWO, untracked=frozenset({("s", 2)}), processes=1, ops=frozenset({"trim"}), read=1),
    Scenario("untracked, matched, trimmed", (MATCH,), PAIR, untracked=frozenset({("p", 1), ("q", 1)}), processes=1, ops=frozenset({"trim"})),
    Scenario("trimmed", (LINE,), ONE, ops=frozenset({"trim", "compact"}), bad=frozenset({("b", 1)}), processes=1),
    Scenario("trimmed, doubled runs", (SHORT,), ONE, ops=frozenset({"trim", "compact"})),
    Scenario("sums", (SUMS,), ONE, bad=frozenset({("a", 1)})),
    Scenario("by hand, rows", (SHORT,), ONE, hands=(Hand(("acked",)),), settled_first=True),
    Scenario("by hand, twice", (SHORT,), ONE, hands=(Hand(("acked",)), Hand(("acked",))), settled_first=True, attempts=3),
    Scenario("by hand, sums, fails", (SUMS,), ONE, hands=(Hand(("acked",)),), settled_first=True, bad=frozenset({("a", 1)}), attempts=3),
    Scenario("by hand, sums, trimmed", (SUMS,), ONE, hands=(Hand(("acked",)),), settled_first=True, ops=frozenset({"trim", "compact"})),
    Scenario("by hand, matched", (MATCH,), PAIR, hands=(Hand(("acked",), (("p", 1),)),), settled_first=True, patient=False, processes=1),
)

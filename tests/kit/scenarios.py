"""Small named scenarios: each is a rule of the acker, or a fault that it must see."""

from datetime import timedelta

from acker.core.retry import ExponentialBackoff
from acker.core.timeouts import Timeouts
from tests.kit.fold_steps import (
    A,
    B,
    C,
    D,
    E,
    F,
    G,
    H,
    Particular,
    Scenario,
    ack,
    fail,
    init,
    join,
    lost,
    reject,
    reset,
    root,
    step,
)

HOLDERS = [(root(1), "words"), (root(1), "pair"), (root(1), "words"), (root(4), "words")]

SCENARIOS = (
    Scenario(
        "a message whose tuple is consumed is acked",
        (
            step(0, init(1, A), rows=[(1, 1, "pending")]),
            step(1, ack(1, [A]), rows=[(1, 1, "acked")]),
        ),
    ),
    Scenario(
        "a message that nobody reads is acked at once",
        (step(0, init(1), rows=[(1, 1, "acked")]),),
    ),
    Scenario(
        "a branching tree is acked with its last leaf",
        (
            step(0, init(1, A), ack(1, [A], [B, C, D], by="split"), rows=[(1, 1, "pending")]),
            step(1, ack(1, [B, C], [E], by="words"), rows=[(1, 1, "pending")]),
            step(2, ack(1, [D]), ack(1, [E], by="count"), rows=[(1, 1, "acked")]),
        ),
    ),
    Scenario(
        "an aggregate of four holds the first message until the second has come",
        (
            step(
                0,
                init(1, A, B),
                ack(1, [A], [C], by="left"),
                ack(1, [B], [D], by="right"),
                rows=[(1, 1, "pending")],
            ),
            step(
                1,
                init(2, E, F),
                ack(2, [E], [G], by="left"),
                ack(2, [F], [H], by="right"),
                ack(1, [C, D], by="four"),
                ack(2, [G, H], by="four"),
                rows=[(1, 1, "acked"), (2, 1, "acked")],
            ),
        ),
    ),
    Scenario(
        "a tuple anchored to two messages belongs to both trees",
        (
            step(
                0,
                init(1, A),
                init(2, B),
                ack(1, [A], [C], by="pair"),
                ack(2, [B], [C], by="pair"),
                rows=[(1, 1, "pending"), (2, 1, "pending")],
            ),
            step(1, ack(1, [C]), ack(2, [C]), rows=[(1, 1, "acked"), (2, 1, "acked")]),
        ),
    ),
    Scenario(
        "messages that are joined are acked together, when the last of them is complete",
        (
            step(
                0,
                init(1, A, D),
                init(2, B),
                ack(1, [A], [C], by="pair"),
                ack(2, [B], [C], by="pair"),
                join(2, 1),
                rows=[(1, 1, "pending"), (2, 1, "pending")],
            ),
            step(1, ack(1, [C]), ack(2, [C]), rows=[(1, 1, "pending"), (2, 1, "pending")]),
            step(2, ack(1, [D], by="other"), rows=[(1, 1, "acked"), (2, 1, "acked")]),
        ),
    ),
    Scenario(
        "of messages that are joined in a chain one failure fails all",
        (
            step(
                0,
                *(init(n, [A, B, C, D][n]) for n in range(4)),
                join(2, 1),
                rows=[(n, 1, "pending") for n in range(4)],
            ),
            step(
                1,
                join(3, 2),
                *(ack(n, [[A, B, C, D][n]]) for n in range(3)),
                fail(3, [D]),
                rows=[(0, 1, "acked")]
                + [(n, n_th, state) for n in (1, 2, 3) for n_th, state in ((1, "failed"), (2, "retrying"))],
            ),
        ),
    ),
    Scenario(
        "a message that is joined with one that has settled fails",
        (
            step(
                0,
                init(1, A),
                fail(1, [A]),
                init(2, B),
                rows=[(1, 1, "failed"), (1, 2, "retrying"), (2, 1, "pending")],
            ),
            step(1, join(2, 1), ack(2, [B]), rows=[(1, 2, "retrying"), (2, 1, "failed"), (2, 2, "retrying")]),
        ),
    ),
    Scenario(
        "a message whose partner times out is tried again with it",
        (
            step(0, init(1, A), rows=[(1, 1, "pending")]),
            step(10, init(2, B), join(2, 1), ack(2, [B]), rows=[(1, 1, "pending"), (2, 1, "pending")]),
            step(
                20,
                rows=[(1, 1, "timed_out"), (1, 2, "retrying"), (2, 1, "failed"), (2, 2, "retrying")],
            ),
        ),
    ),
    Scenario(
        "the same anchor twice is one edge of the tree",
        (
            step(0, init(1, A, B), ack(1, [A, B], [C], by="pair"), rows=[(1, 1, "pending")]),
            step(1, ack(1, [C]), rows=[(1, 1, "acked")]),
        ),
    ),
    Scenario(
        "an ack may come before its init within a fold",
        (step(0, ack(1, [A]), init(1, A), rows=[(1, 1, "acked")]),),
    ),
    Scenario(
        "a fail wins over a zero in the same fold",
        (step(0, init(1, A), fail(1, [A]), rows=[(1, 1, "failed"), (1, 2, "retrying")]),),
    ),
    Scenario(
        "a policy that looks at the reason gives one message up and tries another again",
        (
            step(
                0,
                *(init(n, A) for n in (1, 2, 3)),
                fail(1, [A], "hopeless"),
                fail(2, [A], "busy"),
                rows=[
                    *((1, 1, state) for state in ("dead_letter", "failed")),
                    *((2, number, state) for number, state in ((1, "failed"), (2, "retrying"))),
                    (3, 1, "pending"),
                ],
            ),
            step(10, rows=[(2, 2, "retrying"), (3, 1, "pending")]),
            step(
                20,
                init(2, A, attempt=2),
                fail(2, [A], "hopeless", attempt=2),
                rows=[
                    *((2, 2, state) for state in ("dead_letter", "failed")),
                    *((3, number, state) for number, state in ((1, "timed_out"), (2, "retrying"))),
                ],
            ),
        ),
        retry=Particular(),
    ),
    Scenario(
        "a fail of one leaf fails the tree, and the other leaf's ack is late",
        (
            step(0, init(1, A, B), rows=[(1, 1, "pending")]),
            step(1, fail(1, [A]), rows=[(1, 1, "failed"), (1, 2, "retrying")]),
            step(2, ack(1, [B]), rows=[(1, 2, "retrying")], late=1),
        ),
    ),
    Scenario(
        "two identical inits cancel and are still no ack",
        (step(0, init(1, A), init(1, A), rows=[(1, 1, "failed"), (1, 2, "retrying")]),),
    ),
    Scenario(
        "a second init fails a pending root, although all is consumed",
        (
            step(0, init(1, A), rows=[(1, 1, "pending")]),
            step(
                1,
                init(1, A, batch=2),
                ack(1, [A]),
                ack(1, [A]),
                rows=[(1, 1, "failed"), (1, 2, "retrying")],
            ),
        ),
    ),
    Scenario(
        "a tuple that is acked twice never completes and times out",
        (
            step(0, init(1, A), ack(1, [A]), ack(1, [A]), rows=[(1, 1, "pending")]),
            step(10, rows=[(1, 1, "pending")]),
            step(20, rows=[(1, 1, "timed_out"), (1, 2, "retrying")]),
        ),
    ),
    Scenario(
        "two equal ids make a zero that the count does not believe",
        (
            step(0, init(1, A), rows=[(1, 1, "pending")]),
            step(1, ack(1, [A], [B, B]), rows=[(1, 1, "pending")]),
            step(2, ack(1, [B, B]), rows=[(1, 1, "acked")]),
        ),
    ),
    Scenario(
        "a count of nothing outstanding is no ack while the XOR differs",
        (step(0, init(1, A), ack(1, [B]), rows=[(1, 1, "pending")]),),
    ),
    Scenario(
        "late acks and fails of a settled root are counted and change nothing",
        (
            step(0, init(1, A), ack(1, [A]), rows=[(1, 1, "acked")]),
            step(1, fail(1, [A]), ack(1, [A]), ack(2, [B]), rows=[], late=3),
        ),
    ),
    Scenario(
        "a late success of a timed out attempt does not ack its message",
        (
            step(0, init(1, A), rows=[(1, 1, "pending")]),
            step(10, rows=[(1, 1, "pending")]),
            step(20, rows=[(1, 1, "timed_out"), (1, 2, "retrying")]),
            step(30, ack(1, [A]), rows=[(1, 2, "retrying")], late=1),
        ),
    ),
    Scenario(
        "of three messages the second is not acked, and times out past ten minutes",
        (
            step(0, init(1, A), init(2, B), init(3, C), rows=[(n, 1, "pending") for n in (1, 2, 3)]),
            step(2, rows=[(1, 1, "pending"), (2, 1, "pending"), (3, 1, "pending")]),
            step(5, ack(1, [A]), rows=[(1, 1, "acked"), (2, 1, "pending"), (3, 1, "pending")]),
            step(7, rows=[(2, 1, "pending"), (3, 1, "pending")]),
            step(9, ack(3, [C]), rows=[(2, 1, "pending"), (3, 1, "acked")]),
            step(10, rows=[(2, 1, "pending")]),
            step(12, rows=[(2, 1, "timed_out"), (2, 2, "retrying")]),
        ),
        timeouts=Timeouts(timedelta(minutes=10), windows=5),
    ),
    Scenario(
        "the last moment of a window is still the window",
        (
            step(0, init(1, A), rows=[(1, 1, "pending")]),
            step(10, rows=[(1, 1, "pending")]),
            step(19.999, rows=[(1, 1, "pending")]),
            step(20, rows=[(1, 1, "timed_out"), (1, 2, "retrying")]),
        ),
    ),
    Scenario(
        "an ack in the fold that would time its root out still counts",
        (
            step(0, init(1, A), rows=[(1, 1, "pending")]),
            step(10, rows=[(1, 1, "pending")]),
            step(20, ack(1, [A]), rows=[(1, 1, "acked")]),
        ),
    ),
    Scenario(
        "a root that is reset survives twice its timeout",
        (
            step(0, init(1, A), init(2, B), rows=[(1, 1, "pending"), (2, 1, "pending")]),
            step(10, reset(1), rows=[(1, 1, "pending"), (2, 1, "pending")]),
            step(20, rows=[(1, 1, "pending"), (2, 1, "timed_out"), (2, 2, "retrying")]),
            step(30, rows=[(1, 1, "timed_out"), (1, 2, "retrying"), (2, 2, "retrying")]),
        ),
    ),
    Scenario(
        "an ack does not start the time again",
        (
            step(0, init(1, A), rows=[(1, 1, "pending")]),
            step(10, ack(1, [A], [B]), rows=[(1, 1, "pending")]),
            step(20, rows=[(1, 1, "timed_out"), (1, 2, "retrying")]),
        ),
    ),
    Scenario(
        "with timeouts off a root stays pending for ever",
        (
            step(0, init(1, A), rows=[(1, 1, "pending")]),
            step(10, rows=[(1, 1, "pending")]),
            step(1_000_000, rows=[(1, 1, "pending")]),
            step(1_000_001, ack(1, [A]), rows=[(1, 1, "acked")]),
        ),
        timeouts=Timeouts(None),
    ),
    Scenario(
        "an outage of three timeouts is one turn of the window",
        (
            step(0, init(1, A), rows=[(1, 1, "pending")]),
            step(30, rows=[(1, 1, "pending")]),
            step(40, rows=[(1, 1, "timed_out"), (1, 2, "retrying")]),
        ),
    ),
    Scenario(
        "a clock that was set back makes nobody older",
        (
            step(0, init(1, A), rows=[(1, 1, "pending")]),
            step(10, rows=[(1, 1, "pending")]),
            step(-30, rows=[(1, 1, "pending")]),
            step(-40, rows=[(1, 1, "pending")]),
            step(-20, rows=[(1, 1, "timed_out"), (1, 2, "retrying")]),
        ),
    ),
    Scenario(
        "a clock that jitters back and forth turns a window once",
        (
            step(0, init(1, A), rows=[(1, 1, "pending")]),
            step(10, rows=[(1, 1, "pending")]),
            step(9.999, rows=[(1, 1, "pending")]),
            step(10, rows=[(1, 1, "pending")]),
            step(20, rows=[(1, 1, "timed_out"), (1, 2, "retrying")]),
        ),
    ),
    Scenario(
        "a root whose tuples wait for a bolt is not timed out",
        (
            step(0, init(1, A), init(2, B), rows=[(1, 1, "pending"), (2, 1, "pending")]),
            step(10, waiting=[root(1)], rows=[(1, 1, "pending"), (2, 1, "pending")]),
            step(20, waiting=[root(1)], rows=[(1, 1, "pending"), (2, 1, "timed_out"), (2, 2, "retrying")]),
            step(30, waiting=[root(1)], rows=[(1, 1, "pending"), (2, 2, "retrying")]),
            step(31, rows=[(1, 1, "timed_out"), (1, 2, "retrying"), (2, 2, "retrying")]),
        ),
    ),
    Scenario(
        "a root times out with the rich bolts that hold its tuples back, and takes others along",
        (
            step(0, init(1, A), init(2, B), held=HOLDERS, rows=[(1, 1, "pending"), (2, 1, "pending")]),
            step(10, init(3, C), join(3, 1), rows=[(1, 1, "pending"), (2, 1, "pending"), (3, 1, "pending")]),
            step(
                20,
                held=HOLDERS,
                rows=[
                    *((1, 1, "timed_out"), (1, 2, "retrying"), (2, 1, "timed_out"), (2, 2, "retrying")),
                    *((3, 1, "failed"), (3, 2, "retrying")),
                ],
            ),
        ),
    ),
    Scenario(
        "the hard limit times out roots whose tuples wait",
        (
            step(0, init(1, A), rows=[(1, 1, "pending")]),
            step(10, waiting=[root(1)], rows=[(1, 1, "pending")]),
            step(20, waiting=[root(1)], rows=[(1, 1, "pending")]),
            step(30, waiting=[root(1)], rows=[(1, 1, "timed_out"), (1, 2, "retrying")]),
        ),
        timeouts=Timeouts(timedelta(minutes=10), windows=1, hard_timeout=timedelta(minutes=20)),
    ),
    Scenario(
        "a message that failed is recovered by its second attempt",
        (
            step(0, init(1, A), fail(1, [A]), rows=[(1, 1, "failed"), (1, 2, "retrying")]),
            step(1, init(1, B, attempt=2), rows=[(1, 2, "pending")]),
            step(2, ack(1, [B], attempt=2), rows=[(1, 2, "acked")]),
        ),
    ),
    Scenario(
        "a message whose attempts are used up is a dead letter",
        (
            step(0, init(1, A), fail(1, [A]), rows=[(1, 1, "failed"), (1, 2, "retrying")]),
            step(
                1, init(1, B, attempt=2), fail(1, [B], attempt=2), rows=[(1, 2, "failed"), (1, 3, "retrying")]
            ),
            step(2, rows=[(1, 3, "retrying")]),
            step(
                3,
                init(1, C, attempt=3),
                fail(1, [C], attempt=3),
                rows=[(1, 3, "dead_letter"), (1, 3, "failed")],
            ),
            step(4, rows=[]),
        ),
    ),
    Scenario(
        "a message that is failed for good is a dead letter at once",
        (step(0, init(1, A), reject(1, [A]), rows=[(1, 1, "dead_letter"), (1, 1, "failed")]),),
    ),
    Scenario(
        "of several failures the one for good decides",
        (
            step(
                0,
                init(1, A, B),
                fail(1, [A], by="a"),
                reject(1, [B], by="b"),
                rows=[(1, 1, "dead_letter"), (1, 1, "failed")],
            ),
        ),
    ),
    Scenario(
        "a message that is joined with one that is failed for good is tried again without it",
        (
            step(
                0,
                init(1, A, D),
                init(2, B),
                ack(1, [A], [C], by="pair"),
                ack(2, [B], [C], by="pair"),
                join(2, 1),
                reject(1, [D], by="other"),
                rows=[(1, 1, "dead_letter"), (1, 1, "failed"), (2, 1, "failed"), (2, 2, "retrying")],
            ),
        ),
    ),
    Scenario(
        "an attempt that is superseded is not failed for good",
        (
            step(
                0,
                init(1, A),
                init(1, B, attempt=2),
                reject(1, [A]),
                rows=[(1, 1, "failed"), (1, 2, "pending")],
            ),
        ),
    ),
    Scenario(
        "with a limit of 0 the first failure and the first timeout are final",
        (
            step(
                0,
                init(1, A),
                fail(1, [A]),
                init(2, B),
                rows=[(1, 1, "dead_letter"), (1, 1, "failed"), (2, 1, "pending")],
            ),
            step(10, rows=[(2, 1, "pending")]),
            step(20, rows=[(2, 1, "dead_letter"), (2, 1, "timed_out")]),
        ),
        retry=ExponentialBackoff(limit=0),
    ),
    Scenario(
        "a message that is gone from its source before its retry is lost",
        (
            step(0, init(1, A), fail(1, [A]), rows=[(1, 1, "failed"), (1, 2, "retrying")]),
            step(1, lost(1, attempt=2), rows=[(1, 2, "lost")]),
        ),
    ),
    Scenario(
        "a message that was gone before its first attempt is lost",
        (step(0, init(1, A), ack(1, [A]), lost(2), rows=[(1, 1, "acked"), (2, 1, "lost")]),),
    ),
    Scenario(
        "a message that is found lost twice is lost once",
        (step(0, lost(1), lost(1), rows=[(1, 1, "lost")]),),
    ),
    Scenario(
        "a root that was found lost, too, goes by its init",
        (
            step(0, lost(1), init(1, A), reset(2), lost(2), rows=[(1, 1, "pending"), (2, 1, "lost")]),
            step(1, ack(1, [A]), rows=[(1, 1, "acked")]),
        ),
    ),
    Scenario(
        "an attempt is superseded by the init of its successor and not tried again",
        (
            step(0, init(1, A), rows=[(1, 1, "pending")]),
            step(1, ack(1, [A]), init(1, B, attempt=2), rows=[(1, 1, "failed"), (1, 2, "pending")]),
            step(2, ack(1, [B], attempt=2), rows=[(1, 2, "acked")]),
        ),
    ),
    Scenario(
        "of three attempts in one fold the highest supersedes the others",
        (
            step(
                0,
                init(1, A),
                init(1, B, attempt=2),
                init(1, C, attempt=3),
                ack(1, [C], attempt=3),
                rows=[(1, 1, "failed"), (1, 2, "failed"), (1, 3, "acked")],
            ),
        ),
    ),
    Scenario(
        "an init that comes after its successor's is superseded by the pending row",
        (
            step(0, init(1, B, attempt=2), rows=[(1, 2, "pending")]),
            step(1, init(1, A), fail(1, [A]), rows=[(1, 1, "failed"), (1, 2, "pending")]),
        ),
    ),
    Scenario(
        "a message waits for its next attempt although an earlier one is emitted again",
        (
            step(
                0, init(1, B, attempt=2), fail(1, [B], attempt=2), rows=[(1, 2, "failed"), (1, 3, "retrying")]
            ),
            step(1, init(1, A), rows=[(1, 1, "pending"), (1, 3, "retrying")]),
        ),
    ),
    Scenario(
        "a retrying message is not acked by the zero of its old root",
        (
            step(0, init(1, A, B), fail(1, [A]), rows=[(1, 1, "failed"), (1, 2, "retrying")]),
            step(1, ack(1, []), rows=[(1, 2, "retrying")], late=1),
            step(2, ack(1, [B]), rows=[(1, 2, "retrying")], late=1),
        ),
    ),
    Scenario(
        "a message that is to be retried is lost when its spout is gone",
        (
            step(0, init(1, A), fail(1, [A]), rows=[(1, 1, "failed"), (1, 2, "retrying")]),
            step(1, spouts=(), rows=[(1, 2, "lost")]),
            step(2, spouts=(), rows=[]),
        ),
    ),
    Scenario(
        "a root in flight completes although its spout is gone",
        (
            step(0, init(1, A), rows=[(1, 1, "pending")]),
            step(1, spouts=("other",), rows=[(1, 1, "pending")]),
            step(2, ack(1, [A]), spouts=("other",), rows=[(1, 1, "acked")]),
        ),
    ),
    Scenario(
        "an acked message that is replayed by hand goes its way again",
        (
            step(0, init(1, A), ack(1, [A]), rows=[(1, 1, "acked")]),
            step(1, init(1, B, attempt=2, replaces=root(1)), rows=[(1, 2, "pending")]),
            step(2, fail(1, [B], attempt=2), rows=[(1, 2, "failed"), (1, 3, "retrying")]),
            step(3, init(1, C, attempt=3, replaces=root(1)), ack(1, [C], attempt=3), rows=[(1, 3, "acked")]),
        ),
    ),
    Scenario(
        "messages that were acked together are replaced together",
        (
            step(0, init(1), init(2), join(2, 1), rows=[(1, 1, "acked"), (2, 1, "acked")]),
            step(1, init(1, attempt=2, replaces=root(1)), rows=[(1, 2, "pending")]),
            step(2, init(2, B, attempt=2, replaces=root(2)), rows=[(1, 2, "pending"), (2, 2, "pending")]),
            step(3, ack(2, [B], attempt=2), rows=[(1, 2, "acked"), (2, 2, "acked")]),
            step(4, init(2, A, attempt=3, replaces=root(2, 2)), rows=[(2, 3, "pending")]),
            step(
                5,
                init(1, C, attempt=3, replaces=root(1, 2)),
                fail(1, [C], attempt=3),
                rows=[
                    (n, n_th, state) for n in (1, 2) for n_th, state in ((3, "dead_letter"), (3, "failed"))
                ],
            ),
        ),
    ),
    Scenario(
        "a message that is to be replaced together with one that is lost fails",
        (
            step(0, init(1), init(2), join(2, 1), rows=[(1, 1, "acked"), (2, 1, "acked")]),
            step(
                1,
                init(1, attempt=2, replaces=root(1)),
                lost(2, attempt=2),
                rows=[(1, 2, "failed"), (1, 3, "retrying"), (2, 2, "lost")],
            ),
            step(2, init(1, attempt=3, replaces=root(1)), rows=[(1, 3, "dead_letter"), (1, 3, "failed")]),
        ),
    ),
)

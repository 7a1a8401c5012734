from collections import Counter
from dataclasses import replace
from datetime import timedelta
from functools import reduce
from operator import xor
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acker.core.events import Event, Kind, LedgerRow, State
from acker.core.messages import MessageId, message_of
from acker.core.retry import ExponentialBackoff
from acker.core.timeouts import Timeouts, Turn
from tests.kit.fold_steps import (
    SOURCE,
    START,
    A,
    B,
    C,
    Scenario,
    Step,
    ack,
    fail,
    init,
    join,
    ledgers,
    lost,
    root,
    step,
    written,
)
from tests.kit.oracle import Ledger, fold
from tests.kit.random_scenarios import emission, random_scenarios, tree
from tests.kit.scenarios import SCENARIOS

MINUTE = timedelta(minutes=1)
FIRST_WINDOW = int(START.timestamp()) // 600
HISTORY = (State.FAILED, State.TIMED_OUT)  # another row of the message follows
FOLLOWING = (State.RETRYING, State.DEAD_LETTER)
ATTEMPT = (State.PENDING, State.ACKED, *HISTORY)  # what can become of a root with an init


def states(rows: tuple[LedgerRow, ...]) -> tuple[tuple[int, int, str], ...]:
    return tuple((row.source_offset, row.attempt, row.state.value) for row in rows)


def moments(scenario: Scenario) -> list[tuple[Ledger, Ledger, tuple[Event, ...]]]:
    """The ledger before each fold, the ledger after it, and the fold's events."""
    found = ledgers(scenario)
    return list(zip([Ledger(), *found], found, [step.events for step in scenario.steps], strict=False))


def proof(events: list[Event]) -> tuple[int, int, int, int]:
    """Inits, XOR, outstanding and fails of a root's events."""
    kinds = Counter(event.kind for event in events)
    balance = reduce(xor, (event.ack_val for event in events))
    return kinds[Kind.INIT], balance, sum(e.emitted - e.consumed for e in events), kinds[Kind.FAIL]


def superseded(row: LedgerRow) -> bool:
    return (row.reason or "").startswith("superseded by attempt ")


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_a_scenario_goes_as_it_says(scenario: Scenario) -> None:
    found = moments(scenario)
    wrote = [(states(written(past, ledger)), ledger.late) for past, ledger, _ in found]
    assert wrote == [(step.rows, step.late) for step in scenario.steps]


def test_scenarios_have_names_of_their_own() -> None:
    assert len({scenario.name for scenario in SCENARIOS}) == len(SCENARIOS)


def final(*steps: Step, retry: ExponentialBackoff | None = None) -> Ledger:
    scenario = Scenario("", steps)
    return ledgers(replace(scenario, retry=retry) if retry else scenario)[-1]


def row(state: State, offset: int = 1, number: int = 1, **fields: Any) -> LedgerRow:
    """The row of an attempt that was emitted in the first fold."""
    emitted = LedgerRow(
        root(offset, number), SOURCE, "0", offset, number, state, batch=1, turn=0, emitted_at=START
    )
    return replace(emitted, **fields)


def test_a_fold_says_its_number_and_its_turn() -> None:
    assert final(step(0), step(25), step(30)) == Ledger(fold=3, turn=Turn(2, FIRST_WINDOW + 3))


def test_a_pending_row_holds_what_is_outstanding() -> None:
    found = final(step(0, init(1, A, B)), step(1, ack(1, [A], [C])))
    assert found.live == (row(State.PENDING, ack_val=B ^ C, outstanding=2),)


def test_an_acked_row_is_balanced_and_has_no_reason() -> None:
    found = final(step(0, init(1, A)), step(1, ack(1, [A])))
    assert (found.live, found.settled) == ((), (row(State.ACKED, settled_at=START + MINUTE),))


def test_a_failed_row_and_its_retry_carry_the_reason_and_the_component() -> None:
    found = final(step(0, init(1, A, B)), step(1, fail(1, [A], "no such word", by="count")))
    why: dict[str, Any] = {"reason": "no such word", "component": "count"}
    failed = row(State.FAILED, ack_val=B, outstanding=1, settled_at=START + MINUTE, **why)
    retrying = row(State.RETRYING, batch=None, turn=None, attempt=2, retry_at=START + 2 * MINUTE, **why)
    assert (found.settled, found.live) == ((failed,), (retrying,))


def test_a_timed_out_row_says_how_long_it_had() -> None:
    found = final(step(0, init(1, A)), step(10), step(20))
    settled_at = START + 20 * MINUTE
    reason = "not complete within 0:10:00"
    timed_out = row(State.TIMED_OUT, ack_val=A, outstanding=1, reason=reason, settled_at=settled_at)
    assert found.settled == (timed_out,)


def test_a_timed_out_row_names_the_rich_bolts_that_hold_it_back_and_its_partner_says_so() -> None:
    held = [(root(1), "words"), (root(1), "pair"), (root(1), "words")]
    found = final(step(0, init(1, A)), step(10, init(2, B), join(2, 1)), step(20, held=held))
    reason = "not complete within 0:10:00: neither acked nor failed by pair, words"
    assert [(each.state, each.component, each.reason) for each in found.settled] == [
        (State.TIMED_OUT, "pair", reason),
        (State.FAILED, "pair", f"joined with a message that failed: {reason}\nThat is source:0:1."),
    ]


def test_a_dead_letter_repeats_its_failed_row() -> None:
    found = final(step(0, init(1, A), fail(1, [A])), retry=ExponentialBackoff(limit=0))
    failed = row(State.FAILED, reason="bad row", component="words", settled_at=START)
    assert found.settled == (replace(failed, state=State.DEAD_LETTER), failed)


def test_a_lost_row_carries_the_reason_of_its_event() -> None:
    found = final(step(0, lost(1, attempt=2, reason="compacted")))
    assert found.settled == (
        row(State.LOST, number=2, turn=None, emitted_at=None, reason="compacted", settled_at=START),
    )


def test_a_row_whose_spout_is_gone_says_so() -> None:
    found = final(step(0, init(1, A), fail(1, [A])), step(1, spouts=()))
    gone = row(State.LOST, attempt=2, batch=None, turn=None, settled_at=START + MINUTE)
    assert found.settled[1:] == (replace(gone, reason="spout is no longer in the topology"),)


def test_a_superseded_row_names_the_highest_attempt() -> None:
    found = final(step(0, init(1, A), init(1, B, attempt=2), init(1, C, attempt=3)))
    assert [(r.attempt, r.reason, r.component) for r in found.settled] == [
        (1, "superseded by attempt 3", None),
        (2, "superseded by attempt 3", None),
    ]


def test_a_message_of_another_partition_does_not_supersede() -> None:
    found = final(step(0, init(1, A), replace(init(1, B, attempt=2), source_partition="1")))
    assert [r.state for r in found.live] == [State.PENDING, State.PENDING]


def test_the_first_fail_that_was_logged_gives_the_reason() -> None:
    events = [
        replace(fail(1, [], "third", by="count"), logged_at=START + MINUTE),
        replace(fail(1, [], "second", by="words"), logged_at=START),
        replace(fail(1, [], "first", by="split"), logged_at=START),
        replace(init(1, A), logged_at=START),
    ]
    found = final(Step(START, tuple(events)))
    assert [(r.reason, r.component) for r in found.settled] == [("first", "split")]


def test_a_fail_without_a_time_comes_first() -> None:
    fails = (replace(fail(1, [], "dated"), logged_at=START), fail(1, [], "undated"))
    found = final(Step(START, (init(1, A), *fails)))
    assert [r.reason for r in found.settled] == ["undated"]


def test_a_second_init_gives_way_to_the_first_and_to_a_fail() -> None:
    found = final(step(0, init(1, A, batch=2), init(1, B, batch=1)))
    assert [(r.batch, r.reason) for r in found.settled] == [(1, "emitted twice")]
    found = final(step(0, init(1, A), init(1, B), fail(1, [A])))
    assert [r.reason for r in found.settled] == ["bad row"]


def test_a_retry_goes_on_replacing_what_its_message_published() -> None:
    found = final(step(0, init(1, A, attempt=2, replaces=root(1)), fail(1, [A], attempt=2)))
    assert [r.replaces for r in found.live + found.settled] == [root(1), root(1)]


def test_a_policy_of_ones_own_decides_when_to_try_again() -> None:
    class Tomorrow:
        def delay_seconds(self, failures: int) -> float | None:
            return 86_400.0 * failures

    events = step(0, init(1, A), fail(1, [A])).events
    found = fold(Ledger(), events, now=START, timeouts=Timeouts(), retry=Tomorrow(), spouts=[SOURCE])
    assert [r.retry_at for r in found.live] == [START + timedelta(days=1)]


def test_rows_are_ordered_by_message_and_attempt() -> None:
    found = final(step(0, init(10, A), init(9, B), init(9, C, attempt=2), init(2, A)))
    assert states(found.live) == ((2, 1, "pending"), (9, 2, "pending"), (10, 1, "pending"))


@given(random_scenarios())
def test_a_root_is_acked_only_with_every_proof(scenario: Scenario) -> None:
    seen: list[Event] = []
    for past, ledger, events in moments(scenario):
        seen += events
        acked = {r.root_id for r in written(past, ledger) if r.state == State.ACKED}
        proofs = {root_id: proof([e for e in seen if e.root_id == root_id]) for root_id in acked}
        assert proofs == dict.fromkeys(acked, (1, 0, 0, 0))


@given(random_scenarios())
def test_every_message_has_one_newest_row(scenario: Scenario) -> None:
    emitted: set[MessageId] = set()
    for _, ledger, events in moments(scenario):
        emitted |= {message_of(vars(e)) for e in events if e.kind in (Kind.INIT, Kind.LOST)}
        rows = ledger.live + ledger.settled
        last = {r.message: max(other.attempt for other in rows if other.message == r.message) for r in rows}
        newest = [r for r in rows if r.attempt == last[r.message] and r.state not in HISTORY]
        assert Counter(r.message for r in newest) == dict.fromkeys(emitted, 1)


@given(random_scenarios())
def test_an_attempt_settles_once(scenario: Scenario) -> None:
    settled = [r for r in ledgers(scenario)[-1].settled if r.state != State.DEAD_LETTER]
    times = Counter((r.root_id, r.attempt) for r in settled)
    assert times == dict.fromkeys(times, 1)


@given(random_scenarios())
def test_a_pending_root_is_pending_or_settled_after_the_next_fold(scenario: Scenario) -> None:
    for past, ledger, events in moments(scenario):
        inits = {e.root_id for e in events if e.kind == Kind.INIT}
        before = inits | {r.root_id for r in past.live if r.state == State.PENDING}
        outcomes = [r.root_id for r in written(past, ledger) if r.state in ATTEMPT]
        assert Counter(outcomes) == dict.fromkeys(before, 1)


@given(random_scenarios())
def test_a_retrying_message_waits_until_a_later_row_takes_its_place(scenario: Scenario) -> None:
    for past, ledger, _ in moments(scenario):
        now = written(past, ledger)
        for waiting in (r for r in past.live if r.state == State.RETRYING):
            later = [r for r in now if r.message == waiting.message and r.attempt >= waiting.attempt]
            assert waiting in later or {r.state for r in later} - {State.RETRYING}


@given(random_scenarios())
def test_settled_rows_stay_as_they_are(scenario: Scenario) -> None:
    for past, ledger, _ in moments(scenario):
        assert ledger.settled[: len(past.settled)] == past.settled


@given(random_scenarios())
def test_every_failed_attempt_is_followed_by_a_row_of_its_message(scenario: Scenario) -> None:
    for past, ledger, _ in moments(scenario):
        now = written(past, ledger)
        failed = {(r.message, r.root_id) for r in now if r.state in HISTORY and not superseded(r)}
        followed = {(r.message, r.root_id) for r in now if r.state in FOLLOWING and r not in past.live}
        assert failed <= followed


@given(random_scenarios(), st.randoms(use_true_random=False))
def test_the_order_of_events_within_a_fold_makes_no_difference(scenario: Scenario, rng: Random) -> None:
    shuffled = [replace(s, events=tuple(rng.sample(s.events, len(s.events)))) for s in scenario.steps]
    assert ledgers(replace(scenario, steps=tuple(shuffled))) == ledgers(scenario)


@given(random_scenarios())
def test_late_events_are_those_of_roots_that_are_neither_new_nor_in_flight(scenario: Scenario) -> None:
    for past, ledger, events in moments(scenario):
        known = {r.root_id for r in past.live if r.state == State.PENDING}
        known |= {e.root_id for e in events if e.kind in (Kind.INIT, Kind.LOST)}
        assert ledger.late == len([e for e in events if e.root_id not in known])


@given(st.integers(0, 2**32 - 1))
def test_a_whole_tree_is_acked_with_its_last_event_and_not_before(seed: int) -> None:
    rng = Random(seed)
    start, *acks = tree(rng, emission(rng, SOURCE, 1, 1, 1, START))
    rng.shuffle(acks)
    steps = tuple(Step(START, (event,)) for event in [start, *acks])
    found = [ledger.settled for ledger in ledgers(Scenario("", steps))]
    assert [states(rows) for rows in found] == [()] * len(acks) + [((1, 1, "acked"),)]

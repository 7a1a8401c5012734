"""Rows of `events` and `batches` that somebody wrote by hand: refused in a sentence, or without harm."""

import json
import sys
from dataclasses import replace
from functools import partial
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from acker.core.errors import AckerError, StoreError
from acker.core.snapshot.ledger import newest_fold
from acker.core.store.schemas import BATCHES, EVENTS, LEDGER, SCHEMAS
from acker.core.store.tables import append_rows, query
from acker.core.tasks import Caller
from acker.operations.fold import fold
from acker.operations.selection.matching import select
from acker.operations.selection.selection import Selection
from acker.reports.audit import audit_report
from acker.reports.status import status_report
from acker.reports.trace import trace_report
from tests.kit.tasks import PickledTasks
from tests.unit.fuzzed import NOW, ODD, copy, event, log, shop

FAR = NOW.replace(year=9998)


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    """A shop whose first events no fold has seen."""
    folder = tmp_path_factory.mktemp("shop")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        patch.delitem(sys.modules, "shop", raising=False)
        yield shop(folder)
    sys.modules.pop("shop", None)


@pytest.fixture
def run(first, tmp_path):
    """A run of it on a store of the test's own."""
    return copy(first, tmp_path)


def states(run) -> dict[int, str]:
    rows = query("SELECT root_id, state FROM t WHERE root_id IS NOT NULL", t=run.store.require(LEDGER))
    return {row["root_id"]: row["state"] for row in rows if row["state"] != "failed"}


SOUND = {1: "acked", 2: "dead_letter", 3: "pending"}
DAMAGED = {
    "no root": event(None, "init"),
    "no root, acked": event(None, "ack"),
    "unknown kind": event(3, "done"),
    "no kind": event(3, None),
    "negative count": event(3, "ack", consumed=-1),
    "no count": event(3, "ack", consumed=None),
    "attempt 0": event(9, "init", 1, attempt=0),
    "no attempt": event(9, "init", 1, attempt=None),
    "an attempt of no plan": event(9, "init", 1, attempt=2**31 - 1),
    "no message": event(9, "init", 1, source_offset=None),
    "no spout": event(9, "lost", spout=None),
    "joined with nothing": event(3, "join", joined=None),
    "two inits": event(1, "init", 1),
    "an ack of nobody": event(77, "ack"),
    "another ack": event(3, "ack", ack_val=5),
    "a batch's own row": event(None, "batch"),
    "a row that is there already": event(1, "ack"),
}
LOST = r"does not hold what was logged for batch 1 of (orders|items): .* Restore it to a version"


@pytest.mark.parametrize("row", DAMAGED.values(), ids=DAMAGED)
def test_an_event_that_no_component_logged_stops_the_fold_before_it_writes(run, row):
    good = run.store.require(EVENTS).version()
    log(run.store, "by hand", 1, [row])
    runs = [run, *(replace(run, tasks=tasks) for tasks in (Caller(2), PickledTasks(2)))]
    folds = [partial(fold, each) for each in runs]
    for ask in (*folds, lambda: audit_report(run.topology, run.store)):
        with pytest.raises(StoreError, match=LOST) as refused:
            ask()
        assert (refused.value.table, refused.value.batch) == (run.store.path(EVENTS), 1)
        assert refused.value.component in ("orders", "items")
    assert newest_fold(run.store) is None
    status_report(run.topology, run.store, NOW)
    assert trace_report(run.topology, run.store, f"orders:{ODD}:3")
    run.store.require(EVENTS).restore(good)
    fold(run)
    assert states(run) == SOUND


UNREAD = {
    "unknown component": event(3, "ack", component="nobody"),
    "a batch to come": event(3, "ack", batch=2),
    "no batch": event(3, "ack", batch=None),
}


@pytest.mark.parametrize("row", UNREAD.values(), ids=UNREAD)
def test_an_event_of_a_batch_that_is_not_logged_is_not_folded_and_fails_the_audit(run, row):
    log(run.store, "by hand", 1, [row])
    fold(run)
    assert states(run) == SOUND
    with pytest.raises(StoreError, match="does not hold what was logged for batch"):
        audit_report(run.topology, run.store)


VALUES: dict[str, st.SearchStrategy[Any]] = {
    "root_id": st.sampled_from([None, 1, 3, 9]),
    "kind": st.sampled_from([None, "", "init", "ack", "fail", "reset", "join", "lost", "INIT", "\x00"]),
    "ack_val": st.sampled_from([None, 0, 1, -(2**63)]),
    "emitted": st.sampled_from([None, -1, 0, 1, 2**63 - 1]),
    "consumed": st.sampled_from([None, -1, 0, 1]),
    "spout": st.sampled_from([None, "orders", "nobody", "'"]),
    "source_partition": st.sampled_from([None, ODD, ""]),
    "source_offset": st.sampled_from([None, 1, -(2**63)]),
    "attempt": st.sampled_from([None, -1, 0, 1, 2, 2**31 - 1]),
    "joined": st.sampled_from([None, 1, 9]),
    "component": st.sampled_from([None, "orders", "items", "nobody", "'"]),
    "batch": st.sampled_from([None, 0, 1, 2]),
    "reason": st.sampled_from([None, "", "[/x]\x1b", "'"]),
    "logged_at": st.sampled_from([None, NOW, FAR]),
}


@pytest.mark.extended
@given(row=st.fixed_dictionaries(VALUES))
@settings(derandomize=True, deadline=None, max_examples=15)
def test_any_event_is_refused_or_leaves_a_store_that_answers(first, tmp_path_factory, row):
    run = copy(first, tmp_path_factory.mktemp("copy"))
    log(run.store, "by hand", 1, [row])
    for tasks in (run.tasks, Caller(2), PickledTasks(2)):
        try:
            fold(replace(run, tasks=tasks))
        except StoreError as error:
            assert "does not hold what was logged" in str(error)
            assert newest_fold(run.store) is None
    assert states(run) in (SOUND, {})
    status_report(run.topology, run.store, NOW)
    with pytest.raises(StoreError, match="does not hold what was logged"):
        audit_report(run.topology, run.store)
    select(run.topology, run.snapshot(), Selection())
    for offset in (1, 2, 3):
        trace_report(run.topology, run.store, f"orders:{ODD}:{offset}")


PLANNED = json.dumps({"orders": {"after": 0, "upto": 1}})
BATCH: dict[str, Any] = {
    "component": "items", "batch": 2, "kind": "next", "input": PLANNED, "edges": [],
    "planned_at": NOW, "run_id": "x",
}  # fmt: skip
ODD_BATCHES = {
    "component": st.sampled_from([None, "orders", "items", "nobody", "'"]),
    "batch": st.sampled_from([None, -1, 0, 1, 2, 3]),
    "kind": st.sampled_from([None, "next", "replay", "retire", "other"]),
    "input": st.sampled_from(
        [None, "", "{", "null", "[]", "{}", PLANNED, '{"orders": 1}', '{"orders": {"upto": "x"}}',
         '{"messages": []}', '{"messages": {"a": [[1, 1]]}}', '{"messages": {"a": [["x", 1, null]]}}']
    ),
    "edges": st.sampled_from([None, [], ["items"], [None], ["nobody"], ["'"]]),
    "planned_at": st.sampled_from([None, NOW, FAR]),
    "run_id": st.sampled_from([None, "x"]),
}  # fmt: skip


@pytest.mark.parametrize(
    "odd",
    [
        {"input": "{"},
        {"input": "[]"},
        {"input": None},
        {"edges": None},
        {"kind": "other"},
        {"component": None},
    ],
    ids=str,
)
def test_a_batch_that_no_run_planned_is_named(run, odd):
    write_batch(run, BATCH | odd, number=2)
    with pytest.raises(StoreError, match=r"has a row that no run wrote, .* restore it"):
        run.snapshot().rows("batch = 2")
        run.snapshot().components()


@given(row=st.fixed_dictionaries(ODD_BATCHES), number=st.sampled_from([None, 1, 2]))
@settings(derandomize=True, deadline=None, max_examples=15)
def test_any_batch_is_refused_or_leaves_a_store_that_answers(first, tmp_path_factory, row, number):
    run = copy(first, tmp_path_factory.mktemp("copy"))
    write_batch(run, row, number)
    asks = [
        lambda: fold(run),
        lambda: status_report(run.topology, run.store, NOW),
        lambda: audit_report(run.topology, run.store),
        lambda: trace_report(run.topology, run.store, f"orders:{ODD}:1"),
    ]
    for ask in asks:
        try:
            ask()
        except AckerError as error:
            assert str(error)
    assert "acked" not in [state for root, state in states(run).items() if root != 1]


def write_batch(run, row: dict[str, Any], number: int | None) -> None:
    """Write a row by hand; with a number as if it were the component's newest batch."""
    app = "by hand" if number is None else str(row["component"])
    rows = pa.Table.from_pylist([row], SCHEMAS[BATCHES].arrow())
    append_rows(run.store.require(BATCHES), rows, app, number or 1)

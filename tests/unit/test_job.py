"""The acker job in a store: one fold is one commit, whoever runs it and however often."""

from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, fields, replace
from datetime import timedelta
from operator import itemgetter
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest
from deltalake import write_deltalake

from acker.core.errors import StoreError
from acker.core.events import Event, LedgerRow, State
from acker.core.fold import files
from acker.core.fold.job import FoldRequest, run_fold
from acker.core.snapshot.ledger import (
    Fold,
    Live,
    fold_counts,
    live_counts,
    live_rows,
    newest_fold,
)
from acker.core.snapshot.snapshot import Snapshot
from acker.core.store.checksums import batch_row, checksum_of_batch
from acker.core.store.parquet import collect, columns_of
from acker.core.store.schemas import EVENTS, LEDGER
from acker.core.store.store import Store
from acker.core.store.tables import append_rows, files_of, query
from acker.core.tasks import Caller, Tasks
from tests.kit.fold_steps import (
    RETRY,
    SOURCE,
    START,
    TIMEOUTS,
    A,
    B,
    C,
    Scenario,
    ack,
    fail,
    init,
    ledgers,
    step,
    written,
)
from tests.kit.oracle import Ledger
from tests.kit.tasks import PickledTasks

BOTH = (SOURCE, "words")
COLUMNS = ", ".join(column.name for column in fields(LedgerRow))

# Of three messages one is acked, one fails and is emitted again, and one stays in flight.
FIRST = step(0, init(1, A), init(2, B), init(3, C), ack(1, [A]), fail(2, [B]))
SECOND = step(10, init(2, A, attempt=2, batch=2), replace(ack(2, [A], attempt=2), batch=2))
HISTORY = Scenario("in a store", (FIRST, SECOND))


@pytest.fixture
def store(store_uri: str) -> Store:
    """A store with the events of both steps, each in a version of its own."""
    found = Store(store_uri, "numbers")
    found.create()
    for number, events in enumerate([FIRST.events, SECOND.events], start=1):
        append_rows(found.require(EVENTS), rows_of(events, number), "test", number)
    return found


def rows_of(events: Iterable[Event], batch: int) -> pl.DataFrame:
    """The events of a batch of both components, as their logs write them."""
    found = []
    for component in BOTH:
        rows = pl.DataFrame([asdict(e) for e in events if e.component == component], columns_of(EVENTS))
        found += [batch_row(checksum_of_batch(rows), component, batch, 0, START), rows]
    return pl.concat(found)


def request(store: Store, fold: int, **fields: object) -> FoldRequest:
    """What the fold of one of the steps is to do."""
    asked = FoldRequest(
        snapshot=Snapshot(store),
        logged={SOURCE: fold, "words": fold},
        waiting={},
        spouts=[SOURCE],
        retry=RETRY,
        timeouts=TIMEOUTS,
        now=HISTORY.steps[fold - 1].now,
    )
    return replace(asked, **fields)  # type: ignore[arg-type]


def first_fold(store: Store) -> Fold:
    """The row of the first fold, with the version of events that has the batches of both steps."""
    turn = TIMEOUTS.turn(None, START)
    logged = {SOURCE: 1, "words": 1}
    return Fold(1, 2, turn, logged, 0, len(FIRST.events), START, ledger=store.require(LEDGER, 1))


COUNTS = {"acked": 1, "failed": 1, "late": 0, "pending": 1, "retrying": 1}


def ledger_of(store: Store, where: str = "true") -> Counter[LedgerRow]:
    found = query(
        f"SELECT {COLUMNS} FROM ledger WHERE root_id IS NOT NULL AND {where}", ledger=store.require(LEDGER)
    )
    return Counter(LedgerRow(**{**row, "state": State(row["state"])}) for row in found)


def folded(index: int) -> tuple[Ledger, Ledger]:
    """The oracle's ledger before one of its folds and after it."""
    found = [Ledger(), *ledgers(replace(HISTORY, steps=HISTORY.steps[: index + 1]))]
    return found[-2], found[-1]


def test_two_folds_of_one_number_at_once_commit_once(store: Store) -> None:
    with ThreadPoolExecutor() as pool:
        found = list(pool.map(run_fold, [request(store, 1), request(store, 1)]))
    assert sorted(found, key=itemgetter(1)) == [(first_fold(store), False), (first_fold(store), True)]
    assert fold_counts(first_fold(store)) == COUNTS
    assert ledger_of(store) == Counter(written(*folded(0)))


def test_a_fold_that_is_repeated_after_its_commit_changes_nothing(store: Store) -> None:
    later = request(store, 2, logged={SOURCE: 2}, now=START + timedelta(hours=1))
    assert run_fold(request(store, 1)) == (first_fold(store), True)
    assert later.number == 1
    assert run_fold(later) == (newest_fold(store), False) == (first_fold(store), False)
    assert ledger_of(store) == Counter(written(*folded(0)))


def test_a_fold_goes_on_from_the_one_before(store: Store) -> None:
    run_fold(request(store, 1))
    second, _ = run_fold(request(store, 2))
    assert fold_counts(second) == {"acked": 1, "late": 0, "pending": 1}
    assert ledger_of(store, "fold = 2") == Counter(written(*folded(1)))


def check_folds_by(store: Store, *tasks: Tasks) -> None:
    for number, each in enumerate(tasks, start=1):
        run_fold(request(store, number, tasks=each))
        wanted = Counter(written(*folded(number - 1)))
        assert ledger_of(store, f"fold = {number} AND live_in IS NULL OR live_in = {number}") == wanted


BY_TASKS = {
    "caller in passes": Caller(1),
    "caller in two": Caller(3),
    "1 elsewhere": PickledTasks(1),
    "3 elsewhere": PickledTasks(3),
}


@pytest.mark.parametrize("tasks", BY_TASKS.values(), ids=BY_TASKS)
def test_a_fold_by_several_tasks_is_the_same(store: Store, tasks: Tasks) -> None:
    check_folds_by(store, tasks, tasks)


@pytest.mark.parametrize("number", [1, 3, 4])
def test_a_fold_by_other_tasks_than_the_one_before_is_the_same(store: Store, number: int) -> None:
    check_folds_by(store, PickledTasks(2), PickledTasks(number))


def test_rows_that_settled_lie_apart_from_those_that_live_on(store: Store) -> None:
    run_fold(request(store, 1))
    _, after = folded(0)
    assert ledger_of(store, "live_in = 1") == Counter(after.live)
    assert ledger_of(store, "live_in IS NULL") == Counter(after.settled)


def live_files(store: Store) -> list[str]:
    """The files of the newest fold's live rows."""
    return sorted(files_of(store.require(LEDGER), f"live_in = {newest_fold(store).number}"))


def now(store: Store) -> list[tuple[int, str, int]]:
    """(source_offset, state, fold that wrote it) of the live rows, as the docs have the query."""
    sql = "SELECT * FROM l WHERE root_id IS NOT NULL AND live_in = (SELECT max(fold) FROM l)"
    rows = query(sql, l=store.require(LEDGER))
    return sorted((row["source_offset"], row["state"], row["fold"]) for row in rows)


def log(store: Store, batch: int, *events: Event) -> None:
    """Log a batch of both components."""
    rows = rows_of([replace(event, batch=batch) for event in events], batch)
    append_rows(store.require(EVENTS), rows, "test", batch)


def idle(store: Store, number: int, **fields: object) -> FoldRequest:
    """A fold after those of both steps, which has no events."""
    return replace(request(store, 2, **fields), now=HISTORY.steps[1].now + timedelta(seconds=number))


@pytest.fixture
def in_flight(store: Store) -> Store:
    """After the folds of both steps: message 3 is in flight, in a file of its own."""
    for number in (1, 2):
        run_fold(request(store, number))
    assert now(store) == [(3, "pending", 2)]
    return store


def test_an_idle_fold_writes_no_live_row(in_flight: Store) -> None:
    before, bytes_before = live_files(in_flight), sizes(in_flight)
    for number in range(3, 6):
        fold, is_ours = run_fold(idle(in_flight, number))
        assert (fold.number, is_ours, fold_counts(fold)) == (number, True, {"pending": 1, "late": 0})
        assert (now(in_flight), live_files(in_flight)) == ([(3, "pending", 2)], before)
    assert len(sizes(in_flight).keys() - bytes_before.keys()) == 3  # its own row


def sizes(store: Store) -> dict[str, int]:
    """Path of each data file of the ledger, also of those that no version names -> its bytes."""
    return {str(path): path.stat().st_size for path in Path(store.path(LEDGER)).rglob("*.parquet")}


def test_a_fold_writes_the_files_anew_in_which_something_happened_and_takes_over_the_others(
    in_flight: Store,
) -> None:
    log(in_flight, 3, init(4, A), init(5, B))
    run_fold(replace(request(in_flight, 2), logged={SOURCE: 3, "words": 3}))
    assert now(in_flight) == [(3, "pending", 2), (4, "pending", 3), (5, "pending", 3)]
    two = live_files(in_flight)
    assert len(two) == 2
    log(in_flight, 4, ack(4, [A]))
    run_fold(replace(request(in_flight, 2), logged={SOURCE: 4, "words": 4}))
    assert now(in_flight) == [(3, "pending", 2), (5, "pending", 4)]
    assert len(set(live_files(in_flight)) & set(two)) == 1


def test_many_small_files_of_live_rows_become_one(in_flight: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MOST_REUSED", 3)
    for batch in range(3, 13):
        log(in_flight, batch, init(batch + 1, A))
        run_fold(replace(request(in_flight, 2), logged={SOURCE: batch, "words": batch}))
        assert len(live_files(in_flight)) <= 4
    assert [offset for offset, *_ in now(in_flight)] == list(range(3, 14))


def test_many_live_rows_are_written_into_several_files_by_age(
    in_flight: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "ROWS_OF_A_FILE", 2)
    events = [init(offset, A) for offset in range(4, 9)]
    log(in_flight, 3, *events)
    run_fold(replace(request(in_flight, 2), logged={SOURCE: 3, "words": 3}))
    assert len(live_files(in_flight)) == 4
    assert [offset for offset, *_ in now(in_flight)] == list(range(3, 9))
    monkeypatch.setattr(files, "MOST_REUSED", 0)
    before = live_files(in_flight)
    run_fold(replace(request(in_flight, 2), logged={SOURCE: 3, "words": 3}))
    assert len(set(live_files(in_flight)) & set(before)) == 2  # those that are full
    assert [offset for offset, *_ in now(in_flight)] == list(range(3, 9))


def test_live_rows_of_a_store_whose_log_does_not_tell_of_files_are_written_anew(in_flight: Store) -> None:
    table = in_flight.require(LEDGER)
    table.alter.set_table_properties({"delta.dataSkippingStatsColumns": "reason"})
    write_deltalake(table, pa.table(table.to_pyarrow_table()), mode="overwrite")
    run_fold(idle(in_flight, 3))
    assert now(in_flight) == [(3, "pending", 3)]


def test_a_fold_is_read_as_it_was_although_a_later_one_was_compacted_since(store: Store) -> None:
    first, _ = run_fold(request(store, 1))
    run_fold(request(store, 2))
    store.change(LEDGER, lambda table: table.delete("live_in < 2"))
    live = collect(live_rows(first).select("source_offset", "state"))
    assert sorted(live.rows()) == [(2, "retrying"), (3, "pending")]
    assert fold_counts(first) == COUNTS


def test_live_messages_are_counted_without_a_look_at_history(store: Store) -> None:
    first, _ = run_fold(request(store, 1))
    for file in Path(store.path(LEDGER)).glob("live_in=__HIVE_DEFAULT_PARTITION__/*.parquet"):
        file.write_bytes(b"whoever reads what has settled fails")
    assert live_counts(first, START) == Live(pending=1, retrying=1)
    assert live_counts(first, START + timedelta(days=1)) == Live(pending=1, retrying=1, due=1)


def test_a_fold_whose_events_are_gone_says_which_file_and_commits_nothing(store: Store) -> None:
    (first, _) = sorted(files_of(store.require(EVENTS)), key=lambda file: Path(file).stat().st_mtime)
    Path(first).unlink()
    with pytest.raises(StoreError, match=Path(first).name):
        run_fold(request(store, 1))
    assert newest_fold(store) is None

"""The audit of published rows, in one pass and in many."""

import polars as pl
import pytest
from deltalake import DeltaTable, write_deltalake

from acker.core.snapshot.trims import Trim
from acker.core.store.parquet import columns_of
from acker.core.store.schemas import LEDGER, SCHEMAS, stream
from acker.core.store.store import Store
from acker.kafka.cluster import Partition
from acker.kafka.records import Found
from acker.targets.audit import audit_counts, audit_rows, audit_sent
from acker.targets.base import Evidence
from acker.targets.by_message import ByMessage

FOLD, TRIMMED = 3, 1

# root id: (offset, attempt, fold, batch of the spout, tuples in the stream, rows in the published table)
ROOTS = {
    11: (1, 1, 1, 2, 2, 2),
    -12: (2, 1, 1, 2, 1, 0),  # nothing of it is there
    13: (3, 1, 1, 2, 3, 1),  # a part of it
    -14: (4, 1, 2, 2, 1, 2),  # twice
    15: (5, 1, 2, 2, 2, 1),  # acked again as 25: a row is still there
    25: (5, 2, 3, 3, 2, 2),
    16: (6, 1, 2, 2, 2, 0),  # acked again as 26
    -26: (6, 2, 3, 3, 1, 1),
    17: (7, 1, 1, TRIMMED, 0, 4),  # its tuples are trimmed
    18: (8, 1, 1, 2, 0, 0),  # it emitted nothing
    19: (9, 1, FOLD + 1, 2, 1, 0),  # of a fold that is not published yet
}
NOBODYS = -(2**63)


@pytest.fixture(params=[1_000_000, 2], ids=["one pass", "many"])
def evidence(request, tmp_path, monkeypatch) -> Evidence:
    """A store's evidence of the roots; their rows are in a table `published` beside it."""
    monkeypatch.setattr("acker.targets.acked.ROOTS_OF_A_PASS", request.param)
    store = Store(str(tmp_path), "audited")
    store.create()
    acked = [
        {"root_id": root, "spout": "numbers", "source_partition": "0", "source_offset": offset}
        | {"attempt": attempt, "fold": fold, "batch": batch, "state": "acked"}
        for root, (offset, attempt, fold, batch, _, _) in ROOTS.items()
    ]
    ledger = pl.DataFrame(acked, schema=columns_of(LEDGER)).to_arrow()
    missing = [field for field in SCHEMAS[LEDGER].arrow() if field.name not in ledger.column_names]
    for field in missing:
        ledger = ledger.append_column(field, pl.Series([None] * len(acked)).to_arrow().cast(field.type))
    write_deltalake(store.path(LEDGER), ledger.select(SCHEMAS[LEDGER].arrow().names), mode="append")
    emitted = [root for root, row in ROOTS.items() for _ in range(row[4])]
    tuples = pl.DataFrame({"_root_id": emitted}).with_columns(
        pl.lit(2, pl.Int64).alias("_batch"),
        *(pl.lit(None, pl.String).alias(name) for name in ("_kind", "_error", "value")),
    )
    failed = tuples.head(1).with_columns(_kind=pl.lit("fail"))
    untracked = tuples.head(1).with_columns(_root_id=pl.lit(None, pl.Int64))
    write_deltalake(store.path(stream("squared")), pl.concat([tuples, failed, untracked]).to_arrow())
    rows = [root for root, row in ROOTS.items() for _ in range(row[5])]
    write_deltalake(
        str(tmp_path / "published"), pl.DataFrame({"_root_id": [*rows, NOBODYS, None]}).to_arrow()
    )
    trim = Trim(1, {"numbers": TRIMMED}, {"squared": 4})
    return Evidence(
        ledger=store.require(LEDGER),
        stream="squared",
        streams={"squared": store.require(stream("squared"))},
        position=FOLD,
        folded=2,
        trim=trim,
        counted=trim,
    )


def named(verdict):
    """Kind -> the messages, by name, with the beginning of what is wrong."""
    return {
        kind: sorted((each.message, each.why.partition(" in ")[0]) for each in found)
        for kind, found in verdict.findings.items()
    }


def test_each_root_whose_rows_are_not_its_tuples_is_found(evidence, tmp_path):
    assert named(audit_rows(evidence, DeltaTable(str(tmp_path / "published")), "quick")) == {
        "lost": [("numbers:0:2", "0 of 1 rows"), ("numbers:0:3", "1 of 3 rows")],
        "duplicated": [
            ("numbers:0:4", "2 of 1 rows"),
            ("numbers:0:5", "an earlier attempt is still"),
        ],
        "unexpected": [(f"root {NOBODYS}", "1 rows")],
    }


def test_without_a_table_all_that_emitted_is_lost(evidence):
    found = named(audit_rows(evidence, None, "quick"))
    assert [message for message, _ in found["lost"]] == [
        f"numbers:0:{offset}" for offset in (1, 2, 3, 4, 5, 6)
    ]


def test_tuples_are_counted_of_the_newest_acked_attempts_or_of_all(evidence):
    trimmed, untracked = 4, 1
    newest, all_of_them = (2 + 1 + 3 + 1) + (2 + 1), (2 + 1 + 3 + 1) + (2 + 2) + (2 + 1)
    assert audit_sent(evidence, "topic", trimmed + untracked + all_of_them).findings == {}
    (finding,) = audit_sent(evidence, "topic", 0).findings["lost"]
    assert finding.why == f"took in 0 tuples, but {trimmed + untracked + all_of_them} were acked"
    sums = str(evidence.ledger.table_uri).removesuffix("/") + "-sums"
    write_deltalake(sums, pl.DataFrame({"_tuples": [trimmed, untracked, newest]}).to_arrow())
    assert audit_counts(evidence, DeltaTable(sums), "_tuples", "").findings == {}


def test_records_are_compared_with_the_tuples_of_each_acked_attempt(evidence):
    sent = {root: row[4] for root, row in ROOTS.items()} | {11: 1, -12: 2, 17: 5, 19: 7}
    records = [
        Found(Partition("topic", 0), offset, f"numbers:0:{row[0]}".encode(), str(row[1]).encode(), 0)
        for offset, (root, row) in enumerate(ROOTS.items())
        for _ in range(sent[root])
    ]
    records.append(Found(Partition("topic", 0), 99, b"numbers:0:2", b"3", 0))
    with ByMessage(evidence, FOLD + 1) as messages:  # of the last fold a part may be there
        for record in records:
            messages.take(record)
        found = messages.compare(lambda: records)
    assert {kind: [(each.message, each.why) for each in wrong] for kind, wrong in found.items()} == {
        "lost": [("numbers:0:1", "attempt 1: 1 of 2 records")],
        "duplicated": [("numbers:0:2", "attempt 1: 2 of 1 records")],
        "unexpected": [
            ("numbers:0:2", "attempt 3 was not acked, and a record of it is at offset 99 of topic-0")
        ],
    }

"""The log of a batch without Spark."""

from datetime import UTC, datetime

import polars as pl
import pytest

from acker.core.checksums import events_with_checksum
from acker.core.delta import Store
from acker.core.errors import StoreError
from acker.core.log import LogRequest, run_log
from acker.core.parquet import columns_of
from acker.core.schemas import EVENTS
from acker.core.snapshot import Snapshot


def test_a_batch_that_nobody_wrote_acks_nothing(store_uri: str) -> None:
    store = Store(store_uri, "numbers")
    store.create()
    request = LogRequest("words", 1, (), {"numbers": [1]}, datetime(2026, 1, 1, tzinfo=UTC))
    with pytest.raises(StoreError, match=r"There is no table .*/streams/words"):
        run_log(Snapshot(store), request)
    assert store.last_number(EVENTS, "words") == 0


def test_a_batch_without_events_is_sealed_all_the_same() -> None:
    nothing = pl.DataFrame(schema=columns_of(EVENTS))
    (row,) = events_with_checksum(nothing, "words", 1, 0, datetime(2026, 1, 1, tzinfo=UTC)).to_dicts()
    assert (row["kind"], row["batch"], row["ack_val"]) == ("batch", 1, 0)

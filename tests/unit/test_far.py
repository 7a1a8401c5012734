"""What differs for tables on an object store, where each request takes its time."""

import pytest

from acker.core.store.schemas import EVENTS, SCHEMAS, properties_at


@pytest.mark.parametrize("path", ["s3a://lake/store/events", "abfss://lake@host/events", "gs://lake/events"])
def test_a_table_on_an_object_store_has_a_checkpoint_every_few_commits(path: str) -> None:
    here = SCHEMAS[EVENTS].table_properties()
    assert properties_at(path, here) == {**here, "delta.checkpointInterval": "10"}


@pytest.mark.parametrize("path", ["/data/store/events", "file:///data/store/events"])
def test_a_table_on_a_disk_has_one_every_hundred(path: str) -> None:
    here = SCHEMAS[EVENTS].table_properties()
    assert properties_at(path, here) == here
    assert here["delta.checkpointInterval"] == "100"

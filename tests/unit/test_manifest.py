"""What a scheduler is told of a topology."""

import sys
from datetime import date

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from acker import DeltaSpout, FileSpout, KafkaTarget, Topology
from acker.core.errors import TopologyError
from acker.runtime.manifest import manifest_of, registered_manifests
from acker.runtime.registry import load_topology
from acker.runtime.settings import Settings
from acker.spouts.kafka.schemes import Json
from acker.spouts.kafka.spout import KafkaSpout

MODULE = """
from acker import FileSpout, Topology
topology = Topology("{name}")
topology.spout("lines", FileSpout("lines"))
"""


def test_streams_that_share_a_topic_have_places_of_their_own(tmp_path):
    topology = Topology("words")
    lines = topology.spout("lines", FileSpout(str(tmp_path)))
    for name in ("checked", "shouted"):
        topology.bolt(lines, name=name)(lambda tuples: tuples)
        topology.publish(name, KafkaTarget("broker:9092", "words"))
    assert manifest_of(topology).tables == {
        "checked": "kafka://broker:9092/words?stream=words.checked",
        "shouted": "kafka://broker:9092/words?stream=words.shouted",
    }


def test_the_columns_of_a_spout_are_told_as_far_as_they_are_known_without_spark(tmp_path):
    write_deltalake(str(tmp_path / "paid"), pa.table({"id": [1], "day": [date(2026, 1, 31)]}))
    sources = {
        "orders": FileSpout("orders", format="json", schema="id bigint, item string"),
        "lines": FileSpout("lines"),
        "rows": FileSpout("rows", format="parquet"),
        "paid": DeltaSpout(str(tmp_path / "paid"), key="id"),
        "nowhere": DeltaSpout(str(tmp_path / "nowhere"), key="id"),
        "far": DeltaSpout("s3://bucket/far", key="id"),
        "records": KafkaSpout("broker:9092", "records", scheme=Json("id bigint")),
    }
    topology = Topology("words")
    for name, source in sources.items():
        topology.spout(name, source)
    assert {spout.name: dict(spout.columns) for spout in manifest_of(topology).spouts} == {
        "orders": {"id": "bigint", "item": "string"},
        "lines": {"value": "string"},
        "rows": {},
        "paid": {"id": "long", "day": "date"},
        "nowhere": {},
        "far": {},
        "records": {"id": "bigint"},
    }


@pytest.fixture
def settings(tmp_path, monkeypatch):
    for name in ("sales", "returns"):
        (tmp_path / f"kept_{name}.py").write_text(MODULE.format(name=name))
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PIPELINE_TOPOLOGIES", "kept_returns:topology,kept_sales:topology")
    monkeypatch.setenv("PIPELINE_HOME", str(tmp_path / "home"))
    yield Settings.from_env()
    for name in ("sales", "returns"):
        sys.modules.pop(f"kept_{name}", None)


def test_a_topology_that_imports_no_more_is_drawn_as_it_last_was_and_another_is_not_touched(
    settings, tmp_path
):
    found = registered_manifests(settings)
    assert ([each.name for each in found.manifests], found.broken, found.faults) == (
        ["returns", "sales"],
        [],
        [],
    )
    (tmp_path / "kept_returns.py").write_text("raise ValueError('no such column')")
    found = registered_manifests(settings)
    assert ([each.name for each in found.manifests], [each.name for each, _ in found.broken]) == (
        ["sales"],
        ["returns"],
    )
    assert "ValueError: no such column" in found.faults[0]
    assert load_topology("sales", settings).name == "sales"
    assert "kept_returns" not in sys.modules  # which may hang
    with pytest.raises(TopologyError, match="ValueError: no such column"):
        load_topology("returns", settings)


def test_a_topology_is_found_although_its_name_or_its_place_is_another_than_it_was(settings, tmp_path):
    registered_manifests(settings)
    (tmp_path / "kept_returns.py").write_text(MODULE.format(name="sales"))
    (tmp_path / "kept_sales.py").write_text(MODULE.format(name="returns"))
    assert [load_topology(name, settings).name for name in ("sales", "returns")] == ["sales", "returns"]

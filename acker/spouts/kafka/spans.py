"""Spans of offsets: which a batch takes of each partition, and how Spark is told of them."""

import json
from collections.abc import Mapping
from typing import Any

from acker.kafka.cluster import Partition

Spans = Mapping[Partition, tuple[int, int]]  # [first, end) of offsets


def spans_of(planned: Mapping[str, Any]) -> dict[Partition, tuple[int, int]]:
    """The span of each partition in a planned range."""
    return {Partition.parse(name): (first, end) for name, (first, end) in planned["offsets"].items()}


def by_topic(values: Mapping[Partition, Any], as_list: bool = False) -> str:
    """JSON as Spark's source takes it: topic -> partition -> value, or topic -> partitions."""
    found: dict[str, dict[str, Any]] = {}
    for partition, value in values.items():
        found.setdefault(partition.topic, {})[str(partition.number)] = value
    return json.dumps({name: list(each.values()) for name, each in found.items()} if as_list else found)


def shares(waiting: Mapping[Partition, int], limit: int, most: int | None) -> dict[Partition, int]:
    """How many offsets of each partition a batch takes: as fair as what each has allows."""
    found = {}
    room = limit
    order = sorted(waiting, key=lambda partition: (waiting[partition], partition))
    for place, partition in enumerate(order):
        fair = -(-room // (len(order) - place))  # rounded up: a small limit must not stop the last ones
        found[partition] = min(waiting[partition], fair, room, most if most is not None else room)
        room -= found[partition]
    return found

"""What a topology may do and its author hardly means: told beside a run, which it does not stop."""

import dis
import inspect
import sys
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any

from acker.components.basic_bolt import BasicBolt
from acker.core.paths import absolute
from acker.spouts import DeltaSpout, Spout
from acker.topology.topology import Topology


def advice(topology: Topology) -> list[str]:
    """Sentences on what looks like a mistake in a topology that can be run."""
    found = []
    if not topology.publications:
        found.append(
            f"Topology {topology.name} publishes nothing, so nobody sees what it makes: "
            "add topology.publish(bolt, to=...)."
        )
    found.extend(_read_again(topology))
    for bolt in topology.bolts:
        if isinstance(bolt, BasicBolt) and _is_heard(topology, bolt.name) and _emits_nothing(bolt.function):
            found.append(f"Bolt {bolt.name} never emits a row: write `yield` before the row that it makes.")
    return found


def _read_again(topology: Topology) -> Iterator[str]:
    """What a topology publishes to where one of its spouts reads."""
    for spout in topology.spouts:
        for each in topology.publications.values():
            if each.to in _places(spout.source):
                yield (
                    f"{each.stream} is published to {each.to}, which spout {spout.name} reads: what it "
                    "publishes comes in again as new messages, without an end. Publish to another place."
                )


def _places(source: Spout) -> set[str]:
    """What a spout reads, as targets name it."""
    if isinstance(source, DeltaSpout):
        return {absolute(source.path)}
    kafka = sys.modules.get("acker.spouts.kafka")  # which is there if there is such a spout
    if kafka is not None and isinstance(source, kafka.KafkaSpout):
        topics = (source.topics,) if isinstance(source.topics, str) else source.topics
        return {f"kafka://{source.connection or source.servers}/{topic}" for topic in topics}
    return set()  # a FileSpout leaves out what belongs to a Delta table


def _is_heard(topology: Topology, bolt: str) -> bool:
    """Whether somebody waits for the rows of a bolt."""
    return bolt in topology.publications or any(bolt in each.inputs for each in topology.components.values())


def _emits_nothing(function: Callable[..., Any]) -> bool:
    """Whether a function can return None alone. One that only raises does not count."""
    if not isinstance(function, FunctionType) or inspect.isgeneratorfunction(function):
        return False
    returned = set()
    before = None
    for each in dis.get_instructions(function):
        if each.opname == "RETURN_CONST":
            returned.add(each.argval)
        elif each.opname == "RETURN_VALUE":
            # Where something jumps here, as in `return rows or None`, it may bring another value.
            is_constant = before is not None and before.opname == "LOAD_CONST" and not each.is_jump_target
            returned.add(before.argval if is_constant and before else ...)
        before = each
    return returned == {None}

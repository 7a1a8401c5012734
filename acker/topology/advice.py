"""What a topology may do and its author hardly means: told beside a run, which it does not stop."""

import dis
import inspect
from collections.abc import Callable
from types import FunctionType
from typing import Any

from acker.components.basic_bolt import BasicBolt
from acker.topology.topology import Topology


def advice(topology: Topology) -> list[str]:
    """Sentences on what looks like a mistake in a topology that can be run."""
    found = []
    if not topology.publications:
        found.append(
            f"Topology {topology.name} publishes nothing, so nobody sees what it makes: "
            "add topology.publish(bolt, to=...)."
        )
    for bolt in topology.bolts:
        if isinstance(bolt, BasicBolt) and _is_heard(topology, bolt.name) and _emits_nothing(bolt.function):
            found.append(f"Bolt {bolt.name} never emits a row: write `yield` before the row that it makes.")
    return found


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
            is_constant = before is not None and before.opname == "LOAD_CONST"
            returned.add(before.argval if is_constant and before else ...)
        before = each
    return returned == {None}

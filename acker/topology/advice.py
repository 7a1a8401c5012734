"""Advice on likely mistakes in a topology, told beside a run. Such a mistake does not stop the run."""

import dis
import inspect
import sys
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from types import CodeType, FunctionType
from typing import Any

from acker.components.basic_bolt import BasicBolt
from acker.components.collector import RichBolt
from acker.components.rich_bolt import RichBoltComponent
from acker.core.paths import absolute
from acker.spouts import DeltaSpout, Spout
from acker.topology.topology import Topology


def advice(topology: Topology) -> list[str]:
    """Sentences on likely mistakes in a topology that can be run."""
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
        if isinstance(bolt, RichBoltComponent) and _settles_nothing(bolt.factory):
            found.append(
                f"Bolt {bolt.name} neither acks nor fails any tuple, so its messages are never complete: "
                "call collector.ack(tup) when a tuple is done."
            )
    return found


def _read_again(topology: Topology) -> Iterator[str]:
    """Sentences on the streams that are published to a place where one of the topology's spouts reads."""
    for spout in topology.spouts:
        for each in topology.publications.values():
            if each.to in _places(spout.source):
                yield (
                    f"{each.stream} is published to {each.to}, which spout {spout.name} reads: what it "
                    "publishes comes in again as new messages, without an end. Publish to another place."
                )


def _places(source: Spout) -> set[str]:
    """The places that a spout reads, named as targets name them."""
    if isinstance(source, DeltaSpout):
        return {absolute(source.path)}
    kafka = sys.modules.get("acker.spouts.kafka.spout")  # which is there if there is such a spout
    if kafka is not None and isinstance(source, kafka.KafkaSpout):
        topics = (source.topics,) if isinstance(source.topics, str) else source.topics
        return {f"kafka://{source.connection or source.servers}/{topic}" for topic in topics}
    return set()  # a FileSpout leaves out what belongs to a Delta table


def _is_heard(topology: Topology, bolt: str) -> bool:
    """Whether the rows of a bolt are published, or read by another component."""
    return bolt in topology.publications or any(bolt in each.inputs for each in topology.components.values())


def _emits_nothing(function: Callable[..., Any]) -> bool:
    """Whether a function can return only None. A function that only raises does not count."""
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


_SETTLES = {"ack", "fail"}


def _settles_nothing(factory: Callable[..., Any]) -> bool:
    """Whether a rich bolt's class can neither ack nor fail a tuple.

    A class whose `execute` only raises fails tuples. A class that hands its collector on, or is derived from
    a bolt of acker's, may ack and fail them elsewhere.
    """
    made = factory.func if isinstance(factory, partial) else factory
    if not isinstance(made, type) or not issubclass(made, RichBolt):
        return False
    bases = made.__mro__[: made.__mro__.index(RichBolt)]
    if any(base.__module__.partition(".")[0] == "acker" for base in bases):
        return False
    methods = [each for base in bases for each in vars(base).values()]
    functions = [each for each in methods if isinstance(each, FunctionType)]
    execute = inspect.getattr_static(made, "execute")
    if execute not in functions or not _can_return(execute.__code__):
        return False
    codes = [code for each in functions for code in _codes(each.__code__)]
    named = {name for code in codes for name in (*code.co_names, *code.co_consts) if isinstance(name, str)}
    if named & _SETTLES:
        return False
    takers = [each for each in functions if each.__name__ in ("execute", "finish_batch")]
    return not any(_hands_on(each.__code__) for each in takers)


def _codes(code: CodeType) -> Iterator[CodeType]:
    """The code objects of a function and of the functions within it."""
    yield code
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from _codes(each)


def _can_return(code: CodeType) -> bool:
    return any(each.opname.startswith("RETURN_") for each in dis.get_instructions(code))


def _hands_on(code: CodeType) -> bool:
    """Whether a method uses its last argument, the collector, for more than to call its methods."""
    name = code.co_varnames[code.co_argcount - 1]
    found = list(dis.get_instructions(code))
    for each, after in pairwise(found):
        loaded = each.argval if isinstance(each.argval, tuple) else (each.argval,)
        if "LOAD_FAST" in each.opname or each.opname in ("LOAD_DEREF", "LOAD_CLOSURE"):
            is_called = loaded[-1] == name and after.opname in ("LOAD_ATTR", "LOAD_METHOD")
            if name in loaded and (loaded.count(name) > 1 or not is_called):
                return True
    return False

"""Every durable effect of this project as it happens: calls of libraries that change a table or a topic.

The libraries' own functions are wrapped, in a process that is going to be killed, so the project's code runs
as it always does. Which of it makes an effect is read from the stack, and what is changed from the call.
"""

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from types import FrameType
from typing import Any

import deltalake
import deltalake.transaction
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient  # type: ignore[attr-defined]
from deltalake import DeltaTable
from deltalake.table import TableAlterer, TableMerger, TableOptimizer
from pyspark.sql.connect.client.core import SparkConnectClient
from pyspark.sql.connect.client.reattach import ExecutePlanResponseReattachableIterator

from tests.kit import ROOT

PRODUCT = ("acker", "pipeline")
# Effects are named by who calls these modules.
APPENDS = tuple(
    ROOT / "acker" / room / f"{name}.py"
    for room, name in (
        ("core/store", "tables"),
        ("core/store", "commits"),
        ("spark", "delta"),
        ("spark", "streams"),
    )
)

# What of `deltalake` changes a table, by class.
FUNCTIONS = ("write_deltalake", "convert_to_deltalake", "create_table_with_add_actions")
METHODS: dict[type, tuple[str, ...]] = {
    DeltaTable: (
        *("create", "create_write_transaction", "delete", "update", "vacuum", "restore", "repair"),
        *("create_checkpoint", "cleanup_metadata", "compact_logs", "generate"),
    ),
    TableOptimizer: ("compact", "z_order"),
    TableMerger: ("execute",),
    TableAlterer: tuple(name for name in vars(TableAlterer) if not name.startswith("_")),
}
# What changes a Kafka cluster.
ADMIN = (
    "create_topics",
    "create_partitions",
    "delete_topics",
    "delete_records",
    "alter_consumer_group_offsets",
)
# What of Spark sends a command, for those who look for it in the code.
COMMANDS = ("save", "saveAsTable", "insertInto", "sql", "parquet", "csv", "json", "text", "orc")
_HARMLESS_SQL = re.compile(r"\s*SELECT\b", re.IGNORECASE)
_BATCH = re.compile(r"^(streams/[^/]+)/b\d+-\w+$")  # the files of a batch, which are to be of its stream
_SCRATCH = re.compile(r"^(scratch)/\w+$")  # a clone has another name each time
_SQL_TARGET = re.compile(r"delta\.`([^`]+)`")


@dataclass(frozen=True)
class Effect:
    """One call that changes something durable."""

    caller: str  # the project's function that asks for it
    table: str  # what it changes, below the case's folder; of Kafka what is called
    is_sparks: bool
    lines: tuple[tuple[str, int], ...]  # file and line of the call, and of the calls that led to it

    @property
    def label(self) -> str:
        return f"{self.caller}:{self.table}"


Pause = Callable[[str, Effect], None]  # told "before", "sent" (to Spark) and "after"; may never return


def watch(folder: Path, pause: Pause) -> None:
    """From now on tell of every effect of this process that the project asks for."""
    current: list[Effect] = []

    @contextmanager
    def effect(path: str, is_sparks: bool) -> Iterator[None]:
        found = None if current else _effect(folder, path, is_sparks)
        if found is None:
            yield
            return
        pause("before", found)
        current.append(found)
        try:
            yield
        finally:
            current.pop()
            pause("after", found)

    for name in FUNCTIONS:
        _wrap_function(getattr(deltalake, name, None) or getattr(deltalake.transaction, name), effect)
    for owner, names in METHODS.items():
        for name in names:
            _wrap_method(owner, name, effect)
    for name in ADMIN:
        _wrap_named(AdminClient, name, effect)
    _wrap_producer(effect)
    _wrap_spark(effect, lambda: pause("sent", current[0]) if current else None)


def _wrap_function(plain: Callable[..., Any], effect: Callable[..., Any]) -> None:
    @wraps(plain)
    def wrapped(table: Any, *args: Any, **kwargs: Any) -> Any:
        with effect(_path(table), is_sparks=False):
            return plain(table, *args, **kwargs)

    _replace(plain, wrapped)


def _replace(plain: object, wrapped: object) -> None:
    """In the modules that hold a function or a class by its name."""
    for module in list(sys.modules.values()):
        if getattr(module, "__name__", "").partition(".")[0] in ("deltalake", *PRODUCT):
            for name, value in list(vars(module).items()):
                if value is plain:
                    setattr(module, name, wrapped)


def _wrap_method(owner: type, name: str, effect: Callable[..., Any]) -> None:
    plain = getattr(owner, name)
    is_of_class = isinstance(vars(owner)[name], classmethod)

    @wraps(plain)
    def wrapped(table: Any, *args: Any, **kwargs: Any) -> Any:
        with effect(_path(getattr(table, "table", table)), is_sparks=False):
            return plain(table, *args, **kwargs)

    setattr(owner, name, staticmethod(wrapped) if is_of_class else wrapped)


def _wrap_named(owner: type, name: str, effect: Callable[..., Any]) -> None:
    """Make a method an effect that is called as the method is."""
    plain = getattr(owner, name)

    @wraps(plain)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        with effect(name, is_sparks=False):
            return plain(*args, **kwargs)

    setattr(owner, name, wrapped)


def _wrap_producer(effect: Callable[..., Any]) -> None:
    """A producer's transactions; its class is written in C, so it is replaced where it is named."""
    watched = type("Producer", (Producer,), {})
    for name in ("init_transactions", "commit_transaction"):
        _wrap_named(watched, name, effect)
    _replace(Producer, watched)


def _path(table: Any) -> str:
    uri = table.table_uri if isinstance(table, DeltaTable) else str(table)
    return uri.removeprefix("file://")


def _wrap_spark(effect: Callable[..., Any], sent: Callable[[], None]) -> None:
    execute, send = SparkConnectClient.execute_command, ExecutePlanResponseReattachableIterator.__init__

    def executed(self: Any, command: Any, *args: Any, **kwargs: Any) -> Any:
        target = _target(command)
        if target is None:
            return execute(self, command, *args, **kwargs)
        with effect(target, is_sparks=True):
            return execute(self, command, *args, **kwargs)

    def sends(self: Any, *args: Any, **kwargs: Any) -> None:
        send(self, *args, **kwargs)
        sent()

    SparkConnectClient.execute_command = executed
    ExecutePlanResponseReattachableIterator.__init__ = sends


def _target(command: Any) -> str | None:
    """The table that a command of Spark's changes; None where it changes nothing."""
    kind = command.WhichOneof("command_type")
    if kind == "create_dataframe_view":
        return None
    if kind == "write_operation":
        return None if command.write_operation.source == "noop" else command.write_operation.path
    if kind == "sql_command":
        text = command.sql_command.input.sql.query or command.sql_command.sql
        found = _SQL_TARGET.search(text)
        return None if _HARMLESS_SQL.match(text) else found[1] if found else text
    return str(kind)  # unknown: a point that no list has


def _effect(folder: Path, path: str, is_sparks: bool) -> Effect | None:
    """The effect that the project asks for now; None where it does not."""
    ours = [frame for frame in _stack() if _product_file(frame) is not None]
    if not ours:
        return None
    asks = next((frame for frame in ours if Path(frame.f_code.co_filename) not in APPENDS), ours[0])
    called = asks.f_code.co_qualname.replace(".<locals>", "").replace(".<lambda>", "")
    table = path.removeprefix(f"{folder}/").rstrip("/")
    return Effect(
        caller=called,
        table=_SCRATCH.sub(r"\1", _BATCH.sub(r"\1", re.sub(r"^store/\w+/", "", table))),
        is_sparks=is_sparks,
        lines=tuple((_product_file(frame) or "", frame.f_lineno) for frame in ours),
    )


def _stack() -> Iterator[FrameType]:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        yield frame
        frame = frame.f_back


def _product_file(frame: FrameType) -> str | None:
    """A frame's file below the project's folder, where it is one of the project's own code."""
    path = Path(frame.f_code.co_filename)
    if not path.is_relative_to(ROOT):
        return None
    file = path.relative_to(ROOT)
    return str(file) if file.parts[0] in PRODUCT else None

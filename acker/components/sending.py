"""A check that the code of Python bolts can be sent to Spark's workers, made before any batch."""

import inspect
import io
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from pyspark.cloudpickle import CloudPickler

from acker.components.base import Component
from acker.components.basic_bolt import BasicBolt
from acker.components.rich_bolt import RichBoltComponent
from acker.core.errors import BoltError


class _Nowhere(io.RawIOBase):
    """A file that takes all bytes and keeps none."""

    def writable(self) -> bool:
        return True

    def write(self, some: Any) -> int:
        return len(some)


def check_sent(bolt: Component) -> None:
    """Refuse a Python bolt that uses a value which only this process has, such as a connection.

    Raises:
        BoltError: the bolt uses such a value, which the error names.
    """
    code: Any = None
    if isinstance(bolt, BasicBolt):
        code = bolt.function
    elif isinstance(bolt, RichBoltComponent):
        code = bolt.factory
    why = _refused(code)
    if why is None:
        return
    culprit = next((f" uses {name}, which" for name, value in _used(code) if _refused(value)), "")
    raise BoltError(
        f"Bolt {bolt.name}{culprit} cannot be sent to Spark's workers: {why}. Make what cannot be sent, such "
        "as a connection or a lock, inside of the function, or in a rich bolt's prepare.",
        component=bolt.name,
    )


def _refused(value: Any) -> str | None:
    """Why a value cannot be sent; None where it can."""
    try:
        CloudPickler(_Nowhere()).dump(value)  # type: ignore[no-untyped-call]
    except Exception as error:
        return f"{type(error).__name__}: {error}".partition("\n")[0].rstrip(".")
    return None


def _used(code: Any) -> Iterator[tuple[str, Any]]:
    """The variables from outside that a function or the methods of a class use: name and value of each."""
    made = code.func if isinstance(code, partial) else code
    functions: list[Callable[..., Any]] = [
        each for each in (made, *getattr(made, "__dict__", {}).values()) if inspect.isfunction(each)
    ]
    for function in functions:
        try:
            used = inspect.getclosurevars(function)
        except ValueError:  # a variable that has no value yet
            continue
        yield from used.nonlocals.items()
        yield from used.globals.items()

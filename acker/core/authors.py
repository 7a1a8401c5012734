"""The place in an author's code that is being run, as errors name it."""

import sys
from types import FrameType, FunctionType
from typing import Any

_OWN = __name__.partition(".")[0]


def place() -> str:
    """The file and line of the author's code that is being run, in parentheses; empty where there is none."""
    found = author()
    return "" if found is None else f" ({found.f_code.co_filename}, line {found.f_lineno})"


def author() -> FrameType | None:
    """The frame of the author's code that is being run: the innermost one outside of this package."""
    frame: FrameType | None = sys._getframe()
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] in (_OWN, "functools"):
        frame = frame.f_back
    return frame


def is_being_defined(made: Any) -> bool:
    """Whether the line of the author's code that is being run is the one that defines a function or class."""
    frame = author()
    codes = [each.__code__ for each in (made, *getattr(made, "__dict__", {}).values()) if _is_function(each)]
    if frame is None or not codes or codes[0].co_filename != frame.f_code.co_filename:
        return False
    lines = [line for code in codes for *_, line in code.co_lines() if line is not None]
    first = min(code.co_firstlineno for code in codes)
    return frame.f_lineno <= max(lines) and (isinstance(made, type) or first <= frame.f_lineno)


def _is_function(value: Any) -> bool:
    return isinstance(value, FunctionType)

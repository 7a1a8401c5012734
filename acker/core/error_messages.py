"""Messages of errors in one line, as reasons and sentences quote them.

Spark reports the error of a Python worker as a trace, in which the line after the frames names the error.
"""

import re

_JVM = "JVM stacktrace:"
_TRACE = "Traceback (most recent call last):"
_STATE = re.compile(r"\s*SQLSTATE: \w+\s*$")
_DETAILS = re.compile(r'^\s*details = "(.+)"\s*$', re.MULTILINE)  # of an error of gRPC


def message_of(error: BaseException) -> str:
    """The message of an error, in one line.

    It is the line of the error's trace that names the error, if the text has a trace. Else it is the
    `details` of an error of gRPC, the first line of the text, or the name of the error's class.
    """
    text = str(error).split(_JVM)[0]
    last = _last_line(text.rpartition(_TRACE)[2]) if _TRACE in text else ""
    details = _DETAILS.search(text)
    return last or (details[1] if details else _first_line(text)) or type(error).__name__


def _last_line(trace: str) -> str:
    """The line of a trace, without its head, that names the error: the first one that belongs to no frame."""
    lines = [line.rstrip() for line in trace.splitlines() if line.strip()]
    told = next((line for line in lines if not line[0].isspace()), lines[-1].strip() if lines else "")
    return _STATE.sub("", told)


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "")

"""What the log of a process that did not start tells of the reason."""

import re
from pathlib import Path

_TELLING = re.compile(r"Exception|Error|ERROR|Could not|[Ii]nvalid|[Ff]ailed")


def last_words(log: Path) -> str:
    """The line of the log that tells most about a failed start, and where the log is."""
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    telling = [line for line in lines if _TELLING.search(line)] or lines or ["its log is empty."]
    return f"{telling[-1]} The log is {log}."

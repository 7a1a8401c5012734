"""Writes its input to a log, and begins a new file when the log is full: `python log_keeper.py LOG BYTES`.

The previous file is `LOG.old`, and the one before that is gone. The keeper ends when no process writes to it
any more. On a full disk lines are lost, and no writer waits.
"""

import contextlib
import os
import signal
import sys

_PIECE_BYTES = 1 << 16


def main() -> None:
    """Write the standard input to the log, to its end."""
    path, most = sys.argv[1], int(sys.argv[2])
    for number in (signal.SIGINT, signal.SIGTERM):  # they are for those that write
        signal.signal(number, signal.SIG_IGN)
    log = _opened(path)
    while piece := os.read(0, _PIECE_BYTES):
        with contextlib.suppress(OSError):
            if os.fstat(log).st_size + len(piece) > most:
                line, end, piece = piece.partition(b"\n")
                _write(log, line + end)
                log = _rotated(path, log)
            _write(log, piece)


def _rotated(path: str, log: int) -> int:
    """The descriptor of a new file, or of the old one where no new one can be made."""
    try:
        os.replace(path, f"{path}.old")
        new = _opened(path)
    except OSError:
        return log
    os.close(log)
    return new


def _opened(path: str) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)


def _write(log: int, piece: bytes) -> None:
    while piece:
        piece = piece[os.write(log, piece) :]


if __name__ == "__main__":
    main()

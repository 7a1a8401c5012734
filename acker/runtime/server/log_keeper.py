"""Writes what it reads to a log, and begins a new file where that is full: `python log_keeper.py LOG BYTES`.

The file before is `LOG.old`, and the one before that is gone. It ends when nobody writes to it any more. A
disk that is full costs lines, and holds nobody up.
"""

import contextlib
import os
import signal
import sys

_PIECE_BYTES = 1 << 16


def main() -> None:
    """Read the standard input to its end."""
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
    """A new file; the old one goes on where none can be made."""
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

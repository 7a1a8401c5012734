"""Ports of this machine: free ones, those on which something listens, and the processes that hold them."""

import itertools
import random
import socket
import subprocess

from acker.core.errors import ServerError
from acker.runtime.settings import LOOPBACK

_PROBE_SECONDS = 2

# Below the range from which systems take the ports of outgoing connections, so that nothing else is given
# the port in the seconds between the choice and Spark's binding it.
_PORTS = range(20_000, 30_000)


def is_listening(host: str, port: int) -> bool:
    """Whether something accepts TCP connections at a host and port."""
    try:
        with socket.create_connection((host, port), timeout=_PROBE_SECONDS):
            return True
    except (OSError, UnicodeError):  # the second of a name that can be no host's
        return False


def free_port() -> int:
    """A port on which nothing listens now, from below the range that outgoing connections take.

    Raises:
        ServerError: no port is free.
    """
    return free_ports(1)[0]


def free_ports(count: int) -> list[int]:
    """Different ports, each as `free_port` finds it.

    Raises:
        ServerError: there are not enough free ports.
    """
    free = (port for port in random.sample(_PORTS, 100) if _is_free(port))
    found = list(itertools.islice(free, count))
    if len(found) < count:
        raise ServerError(f"Too few ports from {_PORTS.start} to {_PORTS.stop - 1} are free: free some.")
    return found


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


def check_free(
    address: str,
    port: int,
    advice: str = "Free it, or choose another with --port; without it a free one is found.",
) -> None:
    """Check that a server may listen at an address and port.

    Args:
        address: where the server is to listen.
        port: where the server is to listen.
        advice: the end of the error's message.

    Raises:
        ServerError: something else listens, or this user may not. The message names the other process, where
            it is known.
    """
    with socket.socket() as probe:
        # As Java binds: connections that have ended and that the system still remembers are not in the way.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
        except OSError as error:
            why = f"is held by {holder}" if (holder := _holder(port)) else f"cannot be used: {error.strerror}"
            raise ServerError(f"Port {port} {why}. {advice}") from error


def _holder(port: int) -> str:
    """The process that listens on a port, in words; empty where the system does not tell this user."""
    command = ["lsof", "-nP", f"-iTCP:{port}", "-sTCP:LISTEN", "-Fpc"]
    try:
        told = subprocess.run(command, capture_output=True, text=True, timeout=10).stdout.splitlines()
    except (OSError, subprocess.TimeoutExpired):
        return ""
    found = {line[:1]: line[1:] for line in reversed(told)}  # of several the first
    return f"process {found['p']} ({found['c']})" if {"p", "c"} <= set(found) else ""

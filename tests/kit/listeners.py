"""On which addresses of this machine processes listen, as Linux tells it in /proc."""

import os
from collections.abc import Collection
from ipaddress import ip_address
from pathlib import Path

LISTENING = "0A"


def listeners(pids: Collection[int]) -> set[tuple[str, int]]:
    """Address and port of every TCP socket on which one of the processes listens."""
    sockets = set()
    for pid in pids:
        for file in Path(f"/proc/{pid}/fd").glob("*"):
            try:
                sockets.add(os.readlink(file))
            except OSError:
                continue  # it was closed meanwhile
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == LISTENING and f"socket:[{fields[9]}]" in sockets:
                address, _, port = fields[1].partition(":")
                found.add((_readable(address), int(port, 16)))
    return found


def _readable(address: str) -> str:
    """An address that /proc writes as hexadecimal words, each of them backwards."""
    words = [bytes.fromhex(address[at : at + 8])[::-1] for at in range(0, len(address), 8)]
    found = ip_address(b"".join(words))
    return str(getattr(found, "ipv4_mapped", None) or found)

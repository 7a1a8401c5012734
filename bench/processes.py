"""What the Spark server and this process hold of the machine, as `ps` and the JDK's `jcmd` tell it."""

import contextlib
import os
import re
import subprocess
from pathlib import Path

from acker.core.errors import ServerError

_METASPACE = "sun.gc.metaspace.used"
# Spark's own, most of which grow to 100 or 128 threads each in their first hours and stay.
_POOLS = (
    "block-manager-ask-",
    "block-manager-storage-async-",
    "broadcast-exchange-",
    "map-output-dispatcher-",
    "QueryStageCreator-",
    "ResultQueryStageExecution-",
    "shuffle-exchange-",
)
_USED = re.compile(r"sun\.gc\.generation\.\d\.space\.\d\.used")


def server_sizes(pid: int) -> dict[str, float]:
    """Memory of the server in MB (resident; the heap after a collection), threads, Python processes.

    Threads are those outside of the pools that Spark fills up.
    """
    processes = _below(pid)
    pythons = [
        memory for memory, command in processes.values() if "-m acker.runtime.server.python_daemon" in command
    ]
    threads = [line[1:] for line in _jcmd(pid, "Thread.print").splitlines() if line.startswith('"')]
    sizes = {
        "server MB": processes[pid][0] / 1024,
        "Python processes": float(len(pythons)),
        "Python MB": sum(pythons) / 1024,
        "threads of the server": float(sum(not thread.startswith(_POOLS) for thread in threads)),
    }
    _jcmd(pid, "GC.run")
    heap = 0
    for line in _jcmd(pid, "PerfCounter.print").splitlines():
        name, _, value = line.partition("=")
        if _USED.fullmatch(name):
            heap += int(value)
        elif name == _METASPACE:
            sizes["metaspace MB"] = int(value) / 2**20
    return sizes | {"heap MB": heap / 2**20}


def processor_seconds(pid: int) -> float:
    """Seconds of processor time of a process and all below it, those that have ended included. On Linux."""
    ticks: dict[int, int] = {}
    parents: dict[int, int] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            parents[int(folder.name)], ticks[int(folder.name)] = int(fields[1]), sum(map(int, fields[11:15]))
    found = {pid}
    while more := {each for each, parent in parents.items() if parent in found} - found:
        found |= more
    return sum(ticks.get(each, 0) for each in found) / os.sysconf("SC_CLK_TCK")


def client_megabytes() -> float:
    """Resident memory of this process."""
    return _below(os.getpid())[os.getpid()][0] / 1024


def most_megabytes(pid: int | None = None) -> int:
    """The most resident memory that a process has had, this one by default. On Linux."""
    # Not of getrusage: what that tells begins with the memory of the process that started this one.
    peak = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid or 'self'}/status").read_text())
    assert peak is not None
    return round(int(peak[1]) / 1024)


def _below(pid: int) -> dict[int, tuple[int, str]]:
    """A process and all below it -> resident kilobytes and command line."""
    columns = ["ps", "-A", "-ww", "-o", "pid=,ppid=,rss=,args="]
    told = subprocess.run(columns, capture_output=True, text=True, check=True).stdout
    rows = [line.split(maxsplit=3) for line in told.splitlines()]
    found = {pid}
    while more := {int(row[0]) for row in rows if int(row[1]) in found} - found:
        found |= more
    return {int(row[0]): (int(row[2]), row[3]) for row in rows if int(row[0]) in found}


def _jcmd(pid: int, *command: str) -> str:
    try:
        return subprocess.run(["jcmd", str(pid), *command], capture_output=True, text=True, check=True).stdout
    except FileNotFoundError:
        raise ServerError("There is no jcmd here. Install a JDK; a Java runtime alone has none.") from None

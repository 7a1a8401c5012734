"""A Spark cluster of this machine, for trying and for tests: processes that end with this one.

It is Spark's own standalone cluster: a master and workers, which listen on 127.0.0.1 alone. They share no
Python environment, no jars and no current folder with this process. They get only the files that Spark sends.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from acker.core.errors import ServerError
from acker.runtime.home import writing
from acker.runtime.server.jars import spark_home
from acker.runtime.server.java import check_java
from acker.runtime.server.logs import last_words
from acker.runtime.server.ports import free_port, free_ports
from acker.runtime.settings import LOOPBACK
from embedded import process_guard as guard

_START_SECONDS = 120
_POLL_SECONDS = 0.1
_MASTER = "org.apache.spark.deploy.master.Master"
_WORKER = "org.apache.spark.deploy.worker.Worker"
_UP = {"master": "I have been elected leader", "worker": "Successfully registered with master"}


class Cluster:
    """A master and workers of one core each.

    Args:
        folder: the folder of their logs and of the executors' files.
        workers: the number of workers.
        memory: the memory of each worker's executor, such as `1g`.
    """

    def __init__(self, folder: Path, workers: int = 2, memory: str = "1g") -> None:
        self.folder = folder
        self.port, self._web_port = free_ports(2)
        self._memory = memory
        self._names = ["master", *(f"worker-{number}" for number in range(1, workers + 1))]
        self.parts: dict[str, subprocess.Popen[bytes]] = {}  # the guards, each the leader of a process group

    @property
    def url(self) -> str:
        """The URL of the master, for `PIPELINE_SPARK_MASTER`."""
        return f"spark://{LOOPBACK}:{self.port}"

    @property
    def page(self) -> str:
        """The address of the master's page."""
        return f"http://{LOOPBACK}:{self._web_port}"

    @property
    def is_running(self) -> bool:
        """Whether the master and all workers were started and have not ended."""
        return len(self.parts) == len(self._names) and all(
            part.poll() is None for part in self.parts.values()
        )

    def start(self) -> None:
        """Start the parts that do not run. Returns once the workers are known to the master.

        Raises:
            ServerError: a part does not come up.
        """
        check_java()
        with writing(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
        for name in self._names:
            if name in self.parts and self.parts[name].poll() is None:
                continue
            log = self.folder / f"{name}.log"
            log.unlink(missing_ok=True)
            shutil.rmtree(self.folder / name, ignore_errors=True)  # where its executors unpacked archives
            self.parts[name] = guard.start(self._command(name), log, self._environment(), self.folder)
            if name == "master":
                self._await(name, log)
        for name in self._names:
            self._await(name, self.folder / f"{name}.log")

    def kill(self, name: str) -> None:
        """Kill a part with all its processes, as the end of its machine would."""
        os.killpg(self.parts[name].pid, signal.SIGKILL)
        self.parts[name].wait()

    def stop(self) -> None:
        """Stop the master and the workers, and wait until they are gone."""
        guard.stop(self.parts.values())
        self.parts.clear()

    def _command(self, name: str) -> list[str]:
        command = [f"{spark_home()}/bin/spark-class"]
        if name == "master":
            ports = ["--port", str(self.port), "--webui-port", str(self._web_port)]
            return [*command, _MASTER, "--host", LOOPBACK, *ports]
        size = ["--cores", "1", "--memory", self._memory, "--work-dir", str(self.folder / name)]
        return [*command, _WORKER, "--host", LOOPBACK, "--webui-port", str(free_port()), *size, self.url]

    def _environment(self) -> dict[str, str]:
        python = Path(sys.base_prefix) / "bin"  # without any package: those that jobs need are sent
        ours = {name: value for name, value in os.environ.items() if name in ("JAVA_HOME", "HOME", "LANG")}
        path = os.pathsep.join([str(python), os.environ.get("PATH", os.defpath)])
        # Otherwise Spark looks its own host name up, and its pages listen everywhere.
        return ours | {"PATH": path, "SPARK_HOME": str(spark_home()), "SPARK_LOCAL_IP": LOOPBACK}

    def _await(self, name: str, log: Path) -> None:
        deadline = time.monotonic() + _START_SECONDS
        while _UP[name.partition("-")[0]] not in log.read_text(errors="replace"):
            if self.parts[name].poll() is not None:
                raise ServerError(f"The {name} of the Spark cluster did not start: {last_words(log)}")
            if time.monotonic() > deadline:
                raise ServerError(
                    f"The {name} of the Spark cluster did not start within {_START_SECONDS} s: "
                    f"{last_words(log)}"
                )
            time.sleep(_POLL_SECONDS)


@contextlib.contextmanager
def running_cluster(folder: Path, workers: int = 2, memory: str = "1g") -> Iterator[Cluster]:
    """A cluster that runs until the block is left, however that happens.

    Raises:
        ServerError: a part does not start.
    """
    cluster = Cluster(folder, workers, memory)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()

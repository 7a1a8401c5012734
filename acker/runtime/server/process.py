"""The one Spark driver of a deployment: a Spark Connect server that outlives its clients.

A server belongs to a home folder and is found again through `<home>/server/server.json`. It is only ever
ended by the process id and start time noted there, never by a name. It listens on 127.0.0.1 alone, if the
settings do not say otherwise, and serves clients that show its token.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from acker.core.errors import ServerError
from acker.runtime.home import writing
from acker.runtime.server.executors import PACKAGES, PROJECT, packages, project
from acker.runtime.server.jars import default_folder, jars, spark_home
from acker.runtime.server.java import check_java, java_command
from acker.runtime.server.logs import kept_log, last_words
from acker.runtime.server.ports import check_free, free_port, is_listening
from acker.runtime.server.tokens import make_token, read_token, remove_token
from acker.runtime.settings import LOOPBACK, Settings

_START_SECONDS = 180  # a laptop under load takes a minute; beyond this it will not come
_STOP_SECONDS = 20  # Spark's own shutdown hooks take 1 to 3
_KEEP_SECONDS = 300  # to write the classes takes less than 60 where the machine is not busy
_TERMINATED = 128 + signal.SIGTERM  # how Java ends that was told to and has done what it does at its end
_POLL_SECONDS = 0.1
# A server that others use may be silent for seconds: it collects garbage, waits for a disk or is paused.
_SILENT_SECONDS = 60
_LOOK_AGAIN_SECONDS = 1

_TOKEN = "SPARK_CONNECT_AUTHENTICATE_TOKEN"  # of which Spark's server and its client both know

# What the server itself logs once it listens. That something listens on its port proves nothing: another
# process may have taken the port meanwhile.
_STARTED = "Spark Connect server started at"

_CONFS = {
    "spark.ui.enabled": "false",
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    # Tables are named by path. A metastore would leave Derby's files and its lock behind.
    "spark.sql.catalogImplementation": "in-memory",
    # The defaults, 50 and 200, are tasks for a cluster; on one machine they cost more than their work.
    "spark.databricks.delta.snapshotPartitions": "2",
    "spark.sql.shuffle.partitions": "4",
    # So is this one's, 10,000: with it VACUUM of a table with ten files takes half a minute.
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "8",
    # With columnar input a plain Python UDF right over a Parquet or Delta scan hangs in pyspark 4.2.0.
    "spark.sql.execution.arrow.pythonUDF.columnarInput.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    # By default times are nanoseconds in 96 bits, of which other readers know those of 1677 to 2262 alone.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # With one writer a task sorts its rows by partition first, to write one file after the other.
    "spark.sql.maxConcurrentOutputFileWriters": "8",
    # Joins hash where that surely fits into memory; otherwise they sort.
    "spark.sql.adaptive.maxShuffledHashJoinLocalMapThreshold": "64m",
    # A dictionary of ids that are all different is given up halfway, after it has cost its time.
    "spark.hadoop.parquet.enable.dictionary#_root_id": "false",
    # Generated code is kept and found again by its text. 100 pieces, the default, are less than one cycle's
    # (Delta's own included), so nothing of it would ever be warm; and a stage's number, which may differ from
    # run to run, would be part of the text.
    "spark.sql.codegen.cache.maxEntries": "5000",
    "spark.sql.codegen.useIdInClassName": "false",
}

_LOCAL_CONFS = {
    # All sessions share Python's workers (see `sessions`), which forget what each task has imported.
    "spark.python.daemon.module": "acker.runtime.server.python_daemon",
    # The driver listens for executors and for blocks as well. In local mode nothing connects there, and Spark
    # makes a secret that never leaves the process.
    "spark.authenticate": "true",
    "spark.driver.host": LOOPBACK,
    "spark.driver.bindAddress": LOOPBACK,
}

_LOG4J = """\
rootLogger.level = warn
rootLogger.appenderRef.console.ref = console
logger.started.name = org.apache.spark.sql.connect.service.SparkConnectServer
logger.started.level = info
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{yyyy-MM-dd'T'HH:mm:ss.SSSXXX} %p %c{1}: %m%n%ex
"""

# Linux alone can end a process with its parent. The request is made in between fork and exec by a small
# process of its own, because Python code between the two is unsafe once gRPC has started its threads. The
# parent may have died before the request was made, hence the look at its id. 1 is PR_SET_PDEATHSIG.
_DIE_WITH_PARENT = """\
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGKILL)
if os.getppid() == int(sys.argv[1]):
    os.execv(sys.argv[2], sys.argv[2:])
"""

# Handles of the servers that this process has started. Without them nobody would collect their exit status.
_children: dict[int, "subprocess.Popen[bytes]"] = {}


@dataclass(frozen=True)
class Server:
    """A Spark Connect server on this machine."""

    pid: int  # also the id of its process group
    port: int
    started: str  # the process's start time, as the system tells it: a guard against reused process ids
    owner: int | None = None  # the process that it ends with, if any
    is_up: bool = False  # it has listened; until then somebody else may hold its port

    @property
    def url(self) -> str:
        """The URL to which clients on this machine connect."""
        return f"sc://{LOOPBACK}:{self.port}"


def find(settings: Settings) -> Server | None:
    """The server of this home if it runs and answers."""
    server = _read(settings)
    answers = server and server.is_up and _is_alive(server) and is_listening(LOOPBACK, server.port)
    return server if answers else None


def find_patiently(settings: Settings) -> Server | None:
    """The server of this home. A server whose process lives and does not answer is waited for.

    The wait ends where the server answers or its process is gone, and after a minute in any case.
    """
    patience = _Patience(settings)
    while (server := find(settings)) is None and patience.is_left():
        time.sleep(_LOOK_AGAIN_SECONDS)
    return server


def is_left_running(settings: Settings) -> bool:
    """Whether this process has started the server of this home, as one that outlives it."""
    server = find(settings)
    return server is not None and server.pid in _children and server.owner is None


def token_for(settings: Settings, host: str, port: int) -> str | None:
    """The token that a client shows at an address: the settings', or the generated one of the home's server.

    The generated token is shown at that server's port alone. Processes that share the home, and not the
    server's process ids, as containers do, read the port where the server has noted it.

    Raises:
        ServerError: this user may not read the generated token.
    """
    if settings.token is not None:
        return settings.token
    server = _read(settings)
    is_ours = server is not None and (host, port) == (LOOPBACK, server.port)
    return read_token(settings) if is_ours else None


def start(
    settings: Settings, owned: bool = False, port: int | None = None, keep: Path | None = None
) -> Server:
    """Start the server of this home, or find the one that runs. Returns once it accepts connections.

    Args:
        settings: Home, memory and jars of the server.
        owned: The server must not outlive this process. On Linux it then ends even where this process is
            killed; elsewhere the caller has to stop it. Linux watches the thread that started it, so an
            owned server is started from the main thread alone.
        port: Where a new server listens; a free port by default.
        keep: The file to which a new server writes its Java classes as it ends; None: it writes none.

    Raises:
        ServerError: The server does not come up. The message says why and names the log.
    """
    if owned and threading.current_thread() is not threading.main_thread():
        raise ServerError(
            "An owned server ends with the thread that starts it: start it from the main thread."
        )
    patience = _Patience(settings)
    while True:
        with _locked(settings):
            server = find(settings)
            if server:
                _check_token(settings)
                return server
            if not patience.is_left():
                _end(settings)  # a server whose start was cut short, or that no longer answers
                return _launch_one(settings, owned, port, keep)
        time.sleep(_LOOK_AGAIN_SECONDS)  # without the lock, so that `stop` does not wait


def _launch_one(settings: Settings, owned: bool, port: int | None, keep: Path | None) -> Server:
    kept = kept_classes(settings)
    if port is not None:
        check_free(settings.server_address, port)
    options = [f"-XX:SharedArchiveFile={kept}"] if kept.exists() else []
    if keep:  # Java's second compiler would take more time than what it compiles saves
        options = [f"-XX:ArchiveClassesAtExit={keep}", "-XX:TieredStopAtLevel=1"]
    return _launch(settings, port or free_port(), owned, options)


def stop(settings: Settings) -> bool:
    """Stop the server of this home and wait until it is gone. Returns whether there was one."""
    with _locked(settings):
        return _end(settings)


def stop_once_kept(settings: Settings, server: Server) -> None:
    """Stop a server that this process has started, once it has written its Java classes to their file.

    Raises:
        ServerError: the server ended before the file was whole, or could not write it.
    """
    child = _children[server.pid]
    os.killpg(server.pid, signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(_KEEP_SECONDS)
    code = child.returncode  # None: it goes on
    stop(settings)
    if code != _TERMINATED:
        raise ServerError(
            f"Java did not keep its classes (exit code {code}). See that the disk has room for 300 MB, and "
            "try again."
        )


def kept_classes(settings: Settings) -> Path:
    """The file for the classes of servers with this Java and these jars, whether it exists or not.

    Raises:
        ServerError: there is no Java on which Spark runs, or the jars are not there.
    """
    of = [check_java(), java_command(), str(spark_home()), *map(str, jars(settings.jars, settings.is_on_s3))]
    digest = hashlib.sha256("\n".join(of).encode()).hexdigest()[:12]
    return default_folder().parent / f"classes-{digest}.jsa"


def _check_token(settings: Settings) -> None:
    generated = read_token(settings)
    if settings.token is None and generated is None:
        raise ServerError(
            f"The Spark server of {settings.home} wants a token: set SPARK_CONNECT_AUTHENTICATE_TOKEN to the "
            "one with which it was started."
        )
    if settings.token is not None and generated is not None:
        raise ServerError(
            f"The Spark server of {settings.home} was started without SPARK_CONNECT_AUTHENTICATE_TOKEN, so "
            "it has another token: unset the variable, or stop the server with `acker server stop` and start "
            "it again."
        )


def _folder(settings: Settings) -> Path:
    return settings.home / "server"


def _state(settings: Settings) -> Path:
    return _folder(settings) / "server.json"


def log_of(settings: Settings) -> Path:
    """The log of the home's server, whether it is there or not."""
    return _folder(settings) / "server.log"


@contextlib.contextmanager
def _locked(settings: Settings) -> Iterator[None]:
    with writing(_folder(settings)):
        _folder(settings).mkdir(parents=True, exist_ok=True)
        lock = (_folder(settings) / "lock").open("w")
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _read(settings: Settings) -> Server | None:
    try:
        found = json.loads(_state(settings).read_text())
        # Another release may have written more, and its server is still one that can be ended.
        return Server(**{name: found[name] for name in Server.__dataclass_fields__ if name in found})
    except (OSError, ValueError, TypeError):
        return None  # no server, or no file of any release


def _write(settings: Settings, server: Server) -> None:
    draft = _state(settings).with_suffix(".new")
    draft.write_text(json.dumps(asdict(server)))
    draft.replace(_state(settings))


def _start_time(pid: int) -> str | None:
    """When the process started, in the system's own words; None if there is no such process."""
    if sys.platform == "linux":
        try:
            # The second field, the command, is in parentheses and may hold anything, parentheses included.
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return None
        # A zombie is gone, but only once its other threads are: they hold the port until then.
        is_gone = fields[0] in "ZX" and int(fields[17]) <= 1
        return None if is_gone else fields[19]
    told = subprocess.run(["ps", "-o", "stat=,lstart=", "-p", str(pid)], capture_output=True, text=True)
    condition, _, started = told.stdout.strip().partition(" ")
    return None if condition.startswith("Z") else started.strip() or None


def _is_alive(server: Server) -> bool:
    child = _children.get(server.pid)
    if child is not None:
        child.poll()
    return _start_time(server.pid) == server.started


class _Patience:
    """The wait for a server that lives and does not answer. It is told on standard error."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._pid: int | None = None  # of the server that is waited for
        self._since = 0.0  # by the monotonic clock
        self._is_told = False

    def is_left(self) -> bool:
        """Whether the home's server may answer yet: its process lives, was up before, and has time left."""
        server = _read(self._settings)
        if server is None or not server.is_up or not _is_alive(server):
            return False
        if self._pid != server.pid:
            self._pid, self._since, self._is_told = server.pid, time.monotonic(), False
        elif not self._is_told:  # at the second look, since a process that was just killed is gone by then
            self._tell(f"does not answer. Waiting up to {_SILENT_SECONDS} s …")
            self._is_told = True
        is_left = time.monotonic() - self._since < _SILENT_SECONDS
        if not is_left:
            self._tell(f"has not answered for {_SILENT_SECONDS} s.")
        return is_left

    def _tell(self, what: str) -> None:
        print(f"The Spark server of {self._settings.home} (process {self._pid}) {what}", file=sys.stderr)


def _end(settings: Settings) -> bool:
    """End the server that the state file names, and delete its files. Returns whether it was alive."""
    server = _read(settings)
    alive = server is not None and _is_alive(server)
    if server is not None and alive:
        _kill(server)
        _children.pop(server.pid, None)
    _state(settings).unlink(missing_ok=True)
    remove_token(settings)
    shutil.rmtree(_folder(settings) / "local", ignore_errors=True)
    return alive


def _kill(server: Server) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(server.pid, number)
        deadline = time.monotonic() + _STOP_SECONDS
        while time.monotonic() < deadline:
            if not _is_alive(server):
                return
            time.sleep(_POLL_SECONDS)
    raise ServerError(f"The Spark server (process {server.pid}) does not end. Look at what holds it up.")


def _launch(settings: Settings, port: int, owned: bool, options: Sequence[str]) -> Server:
    """Start the process and wait until it listens. An interruption of the wait ends the process as well."""
    with writing(_folder(settings)):
        command = _command(settings, port, options)
        token = settings.token or make_token(settings)
        log = log_of(settings)
        if log.exists():
            log.replace(log.with_suffix(".log.old"))  # the server before this one may have died of something
        output = kept_log(log, settings.umask)
    if owned and sys.platform == "linux":
        command = [sys.executable, "-IS", "-c", _DIE_WITH_PARENT, str(os.getpid()), *command]
    with output:
        child = subprocess.Popen(
            command,
            env=_environment(settings, token),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            umask=settings.umask,
            start_new_session=True,  # so that Ctrl-C in the client does not reach it
        )
    _children[child.pid] = child
    server = Server(child.pid, port, _start_time(child.pid) or "", os.getpid() if owned else None)
    _write(settings, server)  # before it is up, so that a client killed meanwhile leaves no stray server
    try:
        _await(settings, server)
    except BaseException:
        _end(settings)
        raise
    server = replace(server, is_up=True)
    _write(settings, server)
    return server


def _await(settings: Settings, server: Server) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while _STARTED not in log_of(settings).read_text(errors="replace"):
        if not _is_alive(server):
            check_free(settings.server_address, server.port)
            raise ServerError(f"The Spark server did not start: {last_words(log_of(settings))}")
        if time.monotonic() > deadline:
            raise ServerError(
                f"The Spark server did not start within {_START_SECONDS} s: {last_words(log_of(settings))}"
            )
        time.sleep(_POLL_SECONDS)


def _command(settings: Settings, port: int, options: Sequence[str]) -> list[str]:
    folder, scratch = _folder(settings), _scratch(settings)
    scratch.mkdir(exist_ok=True)
    log4j = folder / "log4j2.properties"
    log4j.write_text(_LOG4J)
    confs = _CONFS | {
        "spark.connect.grpc.binding.address": settings.server_address,
        "spark.connect.grpc.binding.port": str(port),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.hadoop.fs.permissions.umask-mode": f"{settings.umask:03o}",  # Hadoop has one of its own, 022
    }
    confs |= _cluster_confs(settings) if settings.is_on_cluster else _LOCAL_CONFS
    confs |= _s3_confs() if settings.is_on_s3 else {}
    command = [f"{spark_home()}/bin/spark-submit", "--master", settings.spark_master]
    command += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer"]
    # `--jars` is split at commas, which a path may hold. For the driver its class path serves as well.
    classes = os.pathsep.join(map(str, jars(settings.jars, settings.is_on_s3)))
    command += ["--driver-memory", settings.driver_memory, "--driver-class-path", classes]
    # A killed JVM leaves its temporary files; here the next start clears them.
    options = [f"-Dlog4j2.configurationFile={log4j.as_uri()}", f"-Djava.io.tmpdir={scratch}", *options]
    command += ["--driver-java-options", " ".join(f'"{option}"' for option in options)]
    for name, value in confs.items():
        command += ["--conf", f"{name}={value}"]
    return [*command, "spark-internal"]


def _cluster_confs(settings: Settings) -> dict[str, str]:
    """Spark's settings by which it sends jars, packages and the project's modules to executors."""
    archives = {PACKAGES: packages(), PROJECT: project(settings.topologies, _folder(settings))}
    return {
        **({"spark.driver.host": LOOPBACK} if _is_near(settings) else {}),
        "spark.jars": ",".join(jar.as_uri() for jar in jars(settings.jars, settings.is_on_s3)),
        "spark.archives": ",".join(f"{path.as_uri()}#{folder}" for folder, path in archives.items()),
        "spark.executorEnv.PYTHONPATH": os.pathsep.join(archives),
    }


def _s3_confs() -> dict[str, str]:
    """Spark's settings from the AWS SDKs' variables. Spark itself takes only keys and endpoint from these."""
    confs = {}
    if region := os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION"):
        confs["spark.hadoop.fs.s3a.endpoint.region"] = region
    if os.environ.get("AWS_ENDPOINT_URL"):  # a server of one's own has no host name for each bucket
        confs["spark.hadoop.fs.s3a.path.style.access"] = "true"
    return confs


def _is_near(settings: Settings) -> bool:
    """Whether the cluster's master listens on this machine alone, and so its executors are here."""
    return f"//{LOOPBACK}:" in settings.spark_master


def _scratch(settings: Settings) -> Path:
    return _folder(settings) / "local"


def _environment(settings: Settings, token: str) -> dict[str, str]:
    # What makes pyspark a client would make spark-submit look for another server.
    client_only = ("SPARK_REMOTE", "SPARK_LOCAL_REMOTE", "SPARK_CONNECT_MODE_ENABLED", "SPARK_API_MODE")
    environ = {name: value for name, value in os.environ.items() if name not in (*client_only, _TOKEN)}
    ours = {
        _TOKEN: token,  # not among the arguments, which every user of a machine may read
        "SPARK_HOME": str(spark_home()),
        # In the place of `spark.local.dir`, which is split at commas.
        "SPARK_EXECUTOR_DIRS": str(_scratch(settings)),
    }
    if settings.is_on_cluster:  # whose Python is its own, and whose executors have to find the driver
        near = {"SPARK_LOCAL_IP": LOOPBACK} if _is_near(settings) else {}
        return {"PYSPARK_PYTHON": "python3"} | near | environ | ours
    paths = [os.getcwd(), environ.get("PYTHONPATH", "")]
    return {
        **environ,
        **ours,
        # Otherwise Spark looks its own host name up, which fails on many a laptop.
        "SPARK_LOCAL_IP": LOOPBACK,
        # Spark's Python workers run in this environment, or they take the system's, and import a topology's
        # helpers from the folder in which the server is started.
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join(path for path in paths if path),
    }

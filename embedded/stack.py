"""The embedded stack: a Spark Connect server and Airflow's parts, as processes that end with this one.

Everything listens on 127.0.0.1 and keeps its state below `PIPELINE_HOME`, Airflow's in one SQLite file.
For a laptop, demonstrations and tests; a deployment runs the same commands under its own supervisor.
"""

import contextlib
import fcntl
import json
import os
import secrets
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from acker.core.errors import ServerError
from acker.runtime.home import writing
from acker.runtime.server import process as server
from acker.runtime.server.ports import free_port, is_listening
from acker.runtime.server.sessions import exit_on_sigterm
from acker.runtime.settings import Settings
from embedded import process_guard as guard

USER = "admin"
_PORT = 8080  # Airflow's own
_START_SECONDS = 180
_POLL_SECONDS = 0.5
_TOKEN_SECONDS = 3600
_LOCK_SECONDS = 30
_ANSWER_SECONDS = 60


class StackError(ServerError):
    """A part of the embedded stack does not start, or another one runs already."""


class ApiError(ServerError):
    """Airflow's API refused a request."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(f"Airflow's API answered {status}: {detail}")
        self.status = status


@dataclass
class Stack:
    """A running stack."""

    settings: Settings
    port: int  # of Airflow's UI and API
    spark: server.Server
    password: str
    environ: dict[str, str]
    commands: dict[str, list[str]]  # of `python -m`, by the part that each starts
    parts: dict[str, "subprocess.Popen[bytes]"] = field(default_factory=dict)
    _token: tuple[float, str] = (0.0, "")

    @property
    def url(self) -> str:
        """The URL of Airflow's UI."""
        return f"http://127.0.0.1:{self.port}"

    def supervise(self) -> list[str]:
        """Start the parts that do not run. Returns the names of those that had run before."""
        ended = []
        if server.find(self.settings) is None:
            running = server.start(self.settings, owned=True, port=self.spark.port)
            if running.pid != self.spark.pid:  # it has not only been busy
                ended.append("Spark")
            self.spark = running
        for name, command in self.commands.items():
            if name not in self.parts or self.parts[name].poll() is not None:
                if name in self.parts:
                    ended.append(name)
                self.parts[name] = guard.start(
                    _python(*command),
                    _log(self.settings, name),
                    self.environ,
                    umask=self.settings.umask,
                )
        return ended

    def api(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """Call Airflow's REST API, `path` below /api/v2.

        Raises:
            ApiError: the API answered with an error.
            OSError: the API did not answer.
        """
        expires, token = self._token
        if time.monotonic() > expires:
            login = {"username": USER, "password": self.password}
            token = _call("POST", f"{self.url}/auth/token", login, {})["access_token"]
            self._token = (time.monotonic() + _TOKEN_SECONDS, token)
        return _call(method, f"{self.url}/api/v2/{path}", body, {"Authorization": f"Bearer {token}"})


def _call(method: str, url: str, body: dict[str, Any] | None, headers: dict[str, str]) -> dict[str, Any]:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(
        url, data, {"Content-Type": "application/json", **headers}, method=method
    )
    try:
        with urllib.request.urlopen(request, timeout=_ANSWER_SECONDS) as response:
            found: dict[str, Any] = json.loads(response.read() or b"{}")
            return found
    except urllib.error.HTTPError as error:
        raise ApiError(error.code, error.read().decode(errors="replace")) from error


@contextlib.contextmanager
def running_stack(settings: Settings, dags: Path) -> Iterator[Stack]:
    """Start the stack, and end it with the block, however the block is left. For the main thread.

    Args:
        settings: the deployment's settings.
        dags: the folder of the deployment's DAG files.

    Raises:
        StackError: another stack runs in this home, or a part does not start.
        ServerError: the Spark server does not start.
    """
    folder = settings.home / "airflow"
    os.umask(settings.umask)
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    with exit_on_sigterm(), _locked(folder):
        spark = server.start(settings, owned=True)
        taken = is_listening("127.0.0.1", _PORT)
        port = free_port() if taken else _PORT
        tasks_port = free_port()
        secret = _secrets(folder)
        environ = _environment(settings, folder, dags, port, tasks_port, spark.url, secret)
        stack = Stack(settings, port, spark, secret["password"], environ, _commands(tasks_port))
        try:
            _migrate(settings, environ)
            stack.supervise()
            _await(stack)
            yield stack
        finally:
            _stop(stack)


def _stop(stack: Stack) -> None:
    guard.stop(stack.parts.values())
    server.stop(stack.settings)


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    with (folder / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StackError(
                f"Another `make run` works in {folder.parent}. "
                "End it with Ctrl-C, or set PIPELINE_HOME to another folder."
            ) from None
        yield


def _secrets(folder: Path) -> dict[str, str]:
    """The stack's passwords and keys: made once, readable by their owner alone."""
    kept = folder / "secrets.json"
    if not kept.exists():
        made = {name: secrets.token_urlsafe(64) for name in ("jwt", "api")}
        made["password"] = secrets.token_urlsafe(9)
        with open(os.open(kept, os.O_WRONLY | os.O_CREAT, 0o600), "w") as file:
            json.dump(made, file)
    found: dict[str, str] = json.loads(kept.read_text())
    passwords = folder / "passwords.json"
    with open(os.open(passwords, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        json.dump({USER: found["password"]}, file)
    return found


def _commands(tasks_port: int) -> dict[str, list[str]]:
    return {
        "api-server": ["airflow", "api-server", "--apps", "core"],
        # Not in the process above: that one notes what a user does in the thread in which all its requests
        # begin and end. While it waits there for SQLite, which has one writer at a time, no task's request
        # could end and give its lock back.
        "execution-api": ["airflow", "api-server", "--apps", "execution", "--port", str(tasks_port)],
        # Its log server would listen everywhere.
        "scheduler": ["acker.airflow", "scheduler", "--skip-serve-logs"],
        "dag-processor": ["airflow", "dag-processor"],
        "triggerer": ["airflow", "triggerer", "--skip-serve-logs"],
        "cleaner": ["acker.airflow", "clean", "--daily"],
    }


def _environment(
    settings: Settings,
    folder: Path,
    dags: Path,
    port: int,
    tasks_port: int,
    spark: str,
    secret: dict[str, str],
) -> dict[str, str]:
    url = f"http://127.0.0.1:{port}"
    airflow = {
        "CORE__DAGS_FOLDER": str(dags),
        "CORE__LOAD_EXAMPLES": "False",
        "CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
        "CORE__EXECUTOR": "LocalExecutor",
        "CORE__PARALLELISM": "4",
        "CORE__EXECUTION_API_SERVER_URL": f"http://127.0.0.1:{tasks_port}/execution/",
        "CORE__SIMPLE_AUTH_MANAGER_USERS": f"{USER}:admin",
        "CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(folder / "passwords.json"),
        # By default a writer that waits for another gives up after 5 s, and the API answers 500.
        "DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{folder / 'airflow.db'}?timeout={_LOCK_SECONDS}",
        "LOGGING__FILE_TASK_HANDLER_NEW_FOLDER_PERMISSIONS": "0o700",  # which it sets whatever the umask is
        "LOGGING__FILE_TASK_HANDLER_NEW_FILE_PERMISSIONS": "0o600",
        "API__HOST": "127.0.0.1",
        "API__PORT": str(port),
        "API__BASE_URL": url,
        "API__WORKERS": "1",
        "API__SECRET_KEY": secret["api"],
        "API_AUTH__JWT_SECRET": secret["jwt"],
        "DAG_PROCESSOR__REFRESH_INTERVAL": "30",
        # Airflow may take as long to see the end of a task that was skipped or failed; 5 by default.
        "WORKERS__MIN_HEARTBEAT_INTERVAL": "1",
    }
    return {
        **os.environ,
        **{f"AIRFLOW__{name}": value for name, value in airflow.items()},
        "AIRFLOW_HOME": str(folder),
        "AIRFLOW_CONN_SPARK_CONNECT": spark.replace("sc://", "spark-connect://"),
        "PIPELINE_HOME": str(settings.home),
        "PIPELINE_STORE": settings.store,
    }


def _python(*arguments: str) -> list[str]:
    return [sys.executable, "-m", *arguments]


def _log(settings: Settings, name: str) -> Path:
    return settings.home / "airflow" / f"{name}.log"


def _migrate(settings: Settings, environ: dict[str, str]) -> None:
    with _log(settings, "migrate").open("wb") as output:
        command = _python("airflow", "db", "migrate")
        done = subprocess.run(
            command,
            env=environ,
            umask=settings.umask,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
    if done.returncode != 0:
        raise StackError(f"Airflow's database could not be set up; see {_log(settings, 'migrate')}.")


def _await(stack: Stack) -> None:
    """Wait until Airflow says that every part is healthy."""
    deadline = time.monotonic() + _START_SECONDS
    while True:
        for name, part in stack.parts.items():
            if part.poll() is not None:
                raise StackError(f"Airflow's {name} did not start; see {_log(stack.settings, name)}.")
        with contextlib.suppress(OSError, ServerError):
            _call("GET", f"{stack.environ['AIRFLOW__CORE__EXECUTION_API_SERVER_URL']}health", None, {})
            health = _call("GET", f"{stack.url}/api/v2/monitor/health", None, {})
            if all(
                health[part]["status"] == "healthy" for part in ("scheduler", "dag_processor", "triggerer")
            ):
                return
        if time.monotonic() > deadline:
            raise StackError(f"Airflow was not up after {_START_SECONDS} s; see {_log(stack.settings, '*')}.")
        time.sleep(_POLL_SECONDS)

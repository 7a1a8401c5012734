"""The only place that makes a Spark session. Every session is a client of a Spark Connect server."""

import contextlib
import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from types import FrameType
from typing import cast

from pyspark.errors import PySparkException
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession
from pyspark.sql.connect.client.retries import DefaultPolicy
from pyspark.sql.connect.session import SparkSession as ConnectSession

from acker.core.errors import ServerError
from acker.runtime.server import process as server
from acker.runtime.server.channels import address, channel
from acker.runtime.server.ports import is_listening
from acker.runtime.settings import Settings, without_secrets

_LOOK_SECONDS = 1.0

# The client tries again for ten minutes by default. A server that has died has lost the session as well, so
# the sooner the caller hears of it the better; five tries take 17 s, and 37 s where it takes connections and
# does not answer.
_RETRIES = 5

# Spark's client prints every error as JSON on stderr, in addition to raising it.
_NOISY_LOGGERS = ("DataFrameQueryContextLogger", "SQLQueryContextLogger")


def connect(settings: Settings, url: str | None = None) -> SparkSession:
    """A new session, isolated from all others.

    Args:
        settings: the deployment's settings, with its token.
        url: `sc://host:port` of the server, with parameters. None: `SPARK_REMOTE` if set, else the project's
            own server.

    Raises:
        ServerError: The server does not answer, does not start, or wants another token.
    """
    return _session(settings, _url(settings, url))


@contextlib.contextmanager
def session(settings: Settings, url: str | None = None) -> Iterator[SparkSession]:
    """A session as `connect` makes it, which ends with the block, at once if its server has died."""
    url = _url(settings, url)
    made = _session(settings, url)
    try:
        yield made
    finally:
        if not is_listening(*address(url)):
            made.client.close()  # or `stop` would try for long to tell a dead server
        made.stop()


@contextlib.contextmanager
def owned_session(settings: Settings) -> Iterator[SparkSession]:
    """A session that ends with the block, as does a server started for it. For the main thread.

    The server ends as well where the block is left by Ctrl-C or SIGTERM, and on Linux where this process is
    killed.

    Raises:
        ServerError: The server does not answer or does not start.
    """
    with exit_on_sigterm(), contextlib.ExitStack() as stack:
        if settings.remote is None and server.find(settings) is None:
            stack.enter_context(_owned_server(settings))
        yield stack.enter_context(session(settings))


def serve(settings: Settings, port: int | None, tell: Callable[[str], None]) -> None:
    """Run a server until this process is told to end, and end it then. For the main thread.

    Args:
        settings: the settings of the server.
        port: where the server listens; a free port by default.
        tell: called with the server's URL once it accepts connections.

    Raises:
        ServerError: The server does not start, or another one runs already, or it ended by itself.
    """
    with exit_on_sigterm():
        if server.find(settings) is not None:
            raise ServerError(f"A server runs in {settings.home} already: `acker server stop`.")
        try:
            tell(server.start(settings, owned=True, port=port).url)
            while server.find_patiently(settings) is not None:
                time.sleep(_LOOK_SECONDS)
        finally:
            server.stop(settings)
    raise ServerError(f"The Spark server ended by itself; see the log in {settings.home / 'server'}.")


@contextlib.contextmanager
def _owned_server(settings: Settings) -> Iterator[None]:
    started = server.start(settings, owned=True)
    try:
        yield
    finally:
        # Another client may have been the faster one, and then the server is not this one's to stop.
        if started.owner == os.getpid():
            server.stop(settings)


@contextlib.contextmanager
def exit_on_sigterm() -> Iterator[None]:
    """Turn SIGTERM into SystemExit, since its default ends the process without any `finally`."""

    def leave(number: int, frame: FrameType | None) -> None:
        sys.exit(128 + number)

    # Signals can be handled in the main thread alone, and a handler of the caller's own comes first.
    if (
        threading.current_thread() is not threading.main_thread()
        or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL
    ):
        yield
        return
    signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _report_soon(session: ConnectSession) -> None:
    """Make a session report within seconds that its server is gone, and each error once."""
    for name in _NOISY_LOGGERS:
        # By way of pyspark's class: a plain logger of this name would not take the arguments it is given.
        PySparkLogger.getLogger(name).setLevel("CRITICAL")
    # The error that follows says the same.
    warnings.filterwarnings("ignore", message=r"\[RETRIES_EXCEEDED\]")
    session.client.set_retry_policies([DefaultPolicy(max_retries=_RETRIES)])


def _share_workers(session: ConnectSession) -> None:
    """Let a session share Python's workers with all other sessions on its server.

    A server isolates the artifacts of every new session. While they are isolated, Spark keeps a daemon of
    40 MB and threads for each session that ever ran Python code. No session of this project adds artifacts,
    so isolation is switched off. A session reads that setting once, before its first request. So a clone of
    the session takes its place.
    """
    session.conf.set("spark.sql.artifact.isolation.enabled", "false")
    isolated, session._client = session.client, session.client.clone()
    session._session_id = session._client._session_id
    isolated.release_session()
    isolated.close()


def _session(settings: Settings, url: str) -> SparkSession:
    """A session on a server that listens.

    Raises:
        ServerError: The server does not answer, or wants another token.
    """
    if not settings.token:
        # Set and empty, it would be a token for Spark's client, which then speaks TLS.
        os.environ.pop("SPARK_CONNECT_AUTHENTICATE_TOKEN", None)
    # As Spark's own builder does, which takes no channel of ours: functions are a client's from here on.
    os.environ["SPARK_CONNECT_MODE_ENABLED"] = "1"
    token = server.token_for(settings, *address(url))
    made = ConnectSession.builder.channelBuilder(channel(url, token)).create()
    _report_soon(made)
    try:
        _ = made.version  # the first that the server is asked
    except PySparkException as error:
        made.client.close()
        if "UNAVAILABLE" in str(error):
            raise ServerError(
                f"The Spark server at {without_secrets(url)} takes connections and does not answer. Look at "
                "its log: it may be busy, paused, or out of memory. Start it anew if it does not recover."
            ) from error
        if "UNAUTHENTICATED" not in str(error):
            raise
        raise ServerError(
            f"The Spark server at {without_secrets(url)} wants a token: set SPARK_CONNECT_AUTHENTICATE_TOKEN "
            "to the one with which it was started, or PIPELINE_HOME to the folder of that server."
        ) from error
    _share_workers(made)
    _report_soon(made)  # it has another client now
    return cast(SparkSession, made)


def _url(settings: Settings, url: str | None) -> str:
    remote = url or settings.remote
    if remote is None:
        return server.start(settings).url
    # Fail at once where nothing listens: the client itself would try for a while, and then say little.
    if not is_listening(*address(remote)):
        instead = "unset SPARK_REMOTE to use the project's own" if url is None else "mend the connection"
        raise ServerError(
            f"No Spark Connect server answers at {without_secrets(remote)}. Start it, or {instead}."
        )
    return remote

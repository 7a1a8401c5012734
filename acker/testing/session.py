"""The Spark session of a process that runs tests, and the server that ends with it.

The first test that needs Spark starts a server of the process's own, with its home in a temporary folder.
Neither `SPARK_REMOTE` nor `PIPELINE_HOME` takes part: a test must not meet the server of a deployment.
"""

import atexit
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from pyspark.sql import SparkSession

from acker.core.store.store import Store
from acker.runtime.server.sessions import owned_session
from acker.runtime.settings import Settings

# For a Spark server of tests: Java's second compiler takes more time than what it compiles saves, for ten
# minutes of short jobs at least.
# Without it Java has 48 MB for what is compiled, and Java 17 takes a quarter of its time to make room there.
SHORT_LIVED = {"JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=512m"}

_REMOTE = "PIPELINE_TEST_REMOTE"  # a server to use in place of an own one
_TAKEN = ("PIPELINE_DRIVER_MEMORY", "PIPELINE_JARS", "SPARK_CONNECT_AUTHENTICATE_TOKEN")

# Most of a job on a few rows is planning and compiling code.
_FEW_ROWS = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.databricks.delta.snapshotPartitions": "1",
    # The server keeps the state of 10,000 tables, 2 MB each, and hundreds of tests make tables of their own.
    "spark.databricks.delta.delta.log.cacheSize": "100",
}

_opened = ExitStack()


@cache
def session() -> SparkSession:
    """The Spark session for tests, on the server that the first call starts. For the main thread.

    Raises:
        ServerError: the server does not start.
    """
    names = {name: os.environ[name] for name in _TAKEN if name in os.environ}
    home = {"PIPELINE_HOME": str(_folder() / "home"), "SPARK_REMOTE": os.environ.get(_REMOTE, "")}
    with _server_environment():
        return for_few_rows(_opened.enter_context(owned_session(Settings.from_env(names | home))))


def close() -> None:
    """End the session and its server, if there is one. A later call of `session` starts anew."""
    _opened.close()
    for kept in (session, empty_store, _folder):
        kept.cache_clear()


@cache
def empty_store() -> Path:
    """The tables of a store without rows. To copy them takes milliseconds, to create them a second."""
    store = Store(str(_folder()), "empty")
    store.create()
    return Path(store.path(""))


def for_few_rows(session: SparkSession) -> SparkSession:
    """Set a session up for jobs on few rows of many tables, and return it."""
    for name, value in _FEW_ROWS.items():
        session.conf.set(name, value)
    return session


@cache
def _folder() -> Path:
    atexit.register(close)  # where no pytest does it
    return Path(_opened.enter_context(TemporaryDirectory(prefix="acker-testing-")))


@contextmanager
def _server_environment() -> Iterator[None]:
    """Set the environment for a server, whose Python workers then import from this process's folders."""
    path = os.pathsep.join(each or os.getcwd() for each in sys.path)
    before = dict(os.environ)
    os.environ.update({**SHORT_LIVED, **before, "PYTHONPATH": path})
    try:
        yield
    finally:
        for name in (*SHORT_LIVED, "PYTHONPATH"):
            os.environ.pop(name, None)
            if name in before:
                os.environ[name] = before[name]

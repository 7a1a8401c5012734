"""Fixtures that every tier may use, and what a run leaves out.

All tests share one Spark server, which ends with the test run. Tests that are marked `extended` run with
`--extended` only, or with `--third` where they are in a file of that third; those that are marked `thorough`
run with `--all-faults` only.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import hypothesis
import pytest
from pyspark.sql import SparkSession

from acker.batches.run import Run
from acker.runtime.server.sessions import owned_session
from acker.runtime.settings import Settings
from acker.testing.session import SHORT_LIVED
from tests.kit.places import ODD, Place, make_empty_store, states
from tests.kit.servers import remote_of, settings_of
from tests.kit.tiers import THIRDS, runs_extended

left_out = pytest.StashKey[dict[str, int]]()  # make target that runs them too -> how many tests


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--extended", action="store_true", help="also the tests marked extended")
    parser.addoption("--third", choices=THIRDS, help="also the tests marked extended of a third of the files")
    parser.addoption("--all-faults", action="store_true", help="also the tests marked thorough")
    parser.addoption("--home", help="folder of a Spark server that runs already, to be used and left alone")
    parser.addoption(
        "--record-points", action="store_true", help="write down the crash points that are found"
    )


def pytest_configure(config: pytest.Config) -> None:
    # Without a deadline, since a slow machine breaks no property.
    hypothesis.settings.register_profile("all", deadline=None, max_examples=50)
    hypothesis.settings.register_profile("some", deadline=None, max_examples=20)
    hypothesis.settings.load_profile("all" if config.getoption("--extended") else "some")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    thorough = set() if config.getoption("--all-faults") else marked(items, "thorough")
    extended = {item for item in marked(items, "extended") - thorough if not runs_extended(config, item.path)}
    config.stash[left_out] = {"test-all": len(extended), "test-faults": len(thorough)}
    left = thorough | extended
    config.hook.pytest_deselected(items=[item for item in items if item in left])
    items[:] = [item for item in items if item not in left]


def marked(items: list[pytest.Item], name: str) -> set[pytest.Item]:
    return {item for item in items if item.get_closest_marker(name)}


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    for target, count in config.stash.get(left_out, {}).items():
        if count:
            terminalreporter.line(f"{count} tests were left out. make {target} runs them too.")


@pytest.fixture(autouse=True)
def own_umask() -> Iterator[None]:
    """Commands that run in this process keep their files private, and all that comes after them."""
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.fixture(scope="session")
def settings(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Settings:
    return settings_of(pytestconfig.getoption("--home") or str(tmp_path_factory.mktemp("home")))


@pytest.fixture(scope="session")
def spark(settings: Settings, pytestconfig: pytest.Config) -> Iterator[SparkSession]:
    """A session on the shared server."""
    with ExitStack() as stack:
        with pytest.MonkeyPatch.context() as patch:
            for name, value in SHORT_LIVED.items():
                patch.setenv(name, value)
            session = stack.enter_context(owned_session(settings))
        yield session


@pytest.fixture(scope="session")
def remote(spark: SparkSession, settings: Settings) -> str:
    """Where the shared server listens, with its token."""
    return remote_of(settings)


@pytest.fixture
def environment(remote: str, tmp_path) -> dict[str, str]:
    """Environment of a child process that uses the shared server and a home and store of its own."""
    ours = {"SPARK_REMOTE": remote, "PIPELINE_HOME": str(tmp_path / "home")}
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PIPELINE_")}
    return kept | ours


@pytest.fixture
def store_uri(tmp_path) -> str:
    """Where a test's Delta tables go."""
    return str(tmp_path / "store")


@pytest.fixture(name="states")
def states_of_a_run() -> Callable[[Run], list[tuple[int, int, str]]]:
    return states


@pytest.fixture(scope="session")
def empty_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tables of a store without rows."""
    return make_empty_store(tmp_path_factory.mktemp("empty"))


@pytest.fixture
def place(tmp_path: Path, spark: SparkSession, empty_store: Path) -> Place:
    """A place of the test's own."""
    return Place(tmp_path / ODD, spark, empty_store)


@pytest.fixture(scope="module")
def shared_place(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession, empty_store: Path) -> Place:
    """A place that the tests of a module share."""
    return Place(tmp_path_factory.mktemp("place") / ODD, spark, empty_store)

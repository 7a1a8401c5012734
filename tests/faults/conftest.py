"""How much of the faults is tried, and a summary line for each kind of them.

Each module of this folder is a kind of fault, which its `KIND` names, and each of its tests a case of that
kind. Cases that are marked `thorough` run with `--all-faults` only.
"""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from acker.core.delta import Store
from tests.faults.simulator import Crew

left_out = pytest.StashKey[Counter[str]]()
kinds = pytest.StashKey[dict[str, str]]()  # module's path -> kind


@pytest.fixture(scope="module")
def crew(remote: str) -> Crew:
    """Workers for a module, which ends them."""
    return Crew(remote)


@pytest.fixture(scope="module")
def empty_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store to be copied, which is quicker than to make one."""
    store = Store(str(tmp_path_factory.mktemp("empty")), "store")
    store.create()
    return Path(store.path(""))


@pytest.fixture(scope="module")
def asked(request: pytest.FixtureRequest) -> list[dict[str, Any]]:
    """The parameters of the module's tests that are going to run."""
    items = [item for item in request.session.items if item.module is request.module]
    return [item.callspec.params for item in items if hasattr(item, "callspec")]


def module(nodeid: str) -> str:
    return nodeid.partition("::")[0]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    config.stash[kinds] = {module(i.nodeid): i.module.KIND for i in items if hasattr(i.module, "KIND")}
    rare = [item for item in items if item.get_closest_marker("thorough")]
    if config.getoption("--all-faults"):
        rare = []
    config.stash[left_out] = Counter(module(item.nodeid) for item in rare)
    config.hook.pytest_deselected(items=rare)
    items[:] = [item for item in items if item not in rare]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    stats = terminalreporter.stats
    bad = {each.nodeid for each in [*stats.get("failed", ()), *stats.get("error", ())]}
    good = {each.nodeid for each in stats.get("passed", ())} - bad
    found = config.stash.get(kinds, {})
    if found:
        terminalreporter.section("faults")
    for path, kind in found.items():
        tried = [each for each in good | bad if module(each) == path]
        failures = sum(each in bad for each in tried)
        rest = config.stash[left_out][path]
        more = f", {rest} more with --all-faults" if rest else ""
        terminalreporter.line(f"{kind}: {len(tried)} tried, failures {failures}{more}")

"""How much of the faults is tried, and a summary line for each kind of them.

Each module of this folder is a kind of fault, which its `KIND` names, and each of its tests a case of that
kind. Cases that are marked `thorough` run with `--all-faults` only, those that are marked `extended` with
`--extended`.
"""

from collections import Counter
from typing import Any

import pytest

from tests.faults.simulator import Crew

left_out = pytest.StashKey[Counter[str]]()
kinds = pytest.StashKey[dict[str, str]]()  # module's path -> kind


@pytest.fixture(scope="module")
def crew(remote: str) -> Crew:
    """Workers for a module, which ends them."""
    return Crew(remote)


@pytest.fixture(scope="module")
def asked(request: pytest.FixtureRequest) -> list[dict[str, Any]]:
    """The parameters of the module's tests that are going to run."""
    items = [item for item in request.session.items if item.module is request.module]
    return [item.callspec.params for item in items if hasattr(item, "callspec")]


def module(nodeid: str) -> str:
    return nodeid.partition("::")[0]


def marked(items: list[pytest.Item], name: str) -> list[pytest.Item]:
    return [item for item in items if item.get_closest_marker(name)]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    config.stash[kinds] = {module(i.nodeid): i.module.KIND for i in items if hasattr(i.module, "KIND")}
    thorough = [] if config.getoption("--all-faults") else marked(items, "thorough")
    extended = [] if config.getoption("--extended") else marked(items, "extended")  # `tests/conftest.py`
    config.stash[left_out] = Counter(module(item.nodeid) for item in {*thorough, *extended})
    config.hook.pytest_deselected(items=thorough)
    items[:] = [item for item in items if item not in thorough]


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
        more = f", {rest} more in make test-faults" if rest else ""
        terminalreporter.line(f"{kind}: {len(tried)} tried, failures {failures}{more}")

"""A summary line for each kind of faults, with how many were tried.

Each module of this folder is a kind of fault, which its `KIND` names, and each of its tests a case of that
kind.
"""

from collections import Counter
from collections.abc import Generator
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


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> Generator[None, None, None]:
    found = [item for item in items if hasattr(item.module, "KIND")]
    config.stash[kinds] = {module(item.nodeid): item.module.KIND for item in found}
    yield
    left = set(found) - set(items)
    config.stash[left_out] = Counter(module(item.nodeid) for item in left)


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

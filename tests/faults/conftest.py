"""How much of the faults is tried, and a summary line for each kind of them.

Each module of this folder is a kind of fault, which its `KIND` names, and each of its tests a case of that
kind. Cases that are marked `thorough` run with `--all-faults` only.
"""

from collections import Counter

import pytest

left_out = pytest.StashKey[Counter[str]]()
kinds = pytest.StashKey[dict[str, str]]()  # module's path -> kind


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

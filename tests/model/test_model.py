"""A part of what `python -m tests.model` explores."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

from tests.model import report
from tests.model.counterexamples import ALL, UNNEEDED, Counterexample
from tests.model.explore import explore, random_path
from tests.model.rules import RULES
from tests.model.scenarios import COPIED, DOUBLED, LARGE, REFUSED, SMALL
from tests.model.world import Scenario

_STATES = 10_000


def _by_turns(all_of_them: Iterable[Any], name: Callable[[Any], str]) -> Iterator[Any]:
    """Cases of a test, of which all but every fourth are thorough."""
    for number, each in enumerate(all_of_them):
        yield pytest.param(each, id=name(each), marks=[pytest.mark.thorough] if number % 4 else [])


def _name(world: Scenario) -> str:
    return world.name


@pytest.mark.parametrize("world", [*_by_turns((*SMALL, *DOUBLED, *REFUSED, *COPIED), _name)])
def test_nothing_breaks_while_all_rules_hold(world: Scenario) -> None:
    assert explore(world, _STATES).fault is None


@pytest.mark.parametrize("world", [*_by_turns(LARGE, _name)])
def test_no_random_path_ends_where_anything_is_wrong(world: Scenario) -> None:
    found = [random_path(world, seed, report.PATH_STEPS) for seed in range(30)]

    assert [each.fault for each in found if each.fault] == []


@pytest.mark.parametrize("each", [*_by_turns(ALL, lambda each: f"without {each.rule}")])
def test_something_breaks_without_a_rule(each: Counterexample) -> None:
    found = report.without(each)

    assert found.fault is not None
    assert explore(each.world, min(2 * found.states, _STATES)).fault is None


def test_every_rule_is_shown_to_be_needed_or_said_not_to_be() -> None:
    assert {each.rule for each in ALL} | set(UNNEEDED) == set(RULES)


@pytest.mark.extended
@pytest.mark.parametrize("rule", UNNEEDED)
def test_nothing_breaks_without_a_rule_that_is_a_second_proof(rule: str) -> None:
    worlds = [world.without(rule) for world in SMALL[:8]]

    assert [explore(world, 4_000).fault for world in worlds] == [None] * len(worlds)


def test_a_trace_is_told_in_a_line_for_each_run() -> None:
    trace = [
        "run a: looks",
        "run a: chooses its input",
        "run a: writes batch 1",
        "run a: logs batch 1",
        "a timeout passes",
    ]

    assert report.told(trace) == ["run a: writes batch 1, logs batch 1", "a timeout passes"]

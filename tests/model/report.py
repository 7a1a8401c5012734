"""What the model finds, as text: scenarios, random paths and rules; each part tells whether all is well."""

import re
from collections.abc import Callable, Iterable
from time import perf_counter

from tests.model.counterexamples import ALL, UNNEEDED, Counterexample
from tests.model.explore import Result, explore, random_path
from tests.model.rules import RULES
from tests.model.world import Scenario

Say = Callable[[str], None]

PATH_STEPS = 300
_DULL = re.compile(
    r"^(looks|begins|runs it|chooses its input|fixes .*|takes its number.*|reads the ledger|"
    r"finds it written)$"
)


def told(trace: Iterable[str]) -> list[str]:
    """A trace with what one run did in a row in one line, and without its looks."""
    lines: list[tuple[str, list[str]]] = []
    for step in (part for line in trace for part in line.split("; ")):
        who, _, what = step.replace(" :", ":").partition(": ")
        if what and _DULL.match(what):
            continue
        if lines and what and lines[-1][0] == who:
            lines[-1][1].append(what)
        else:
            lines.append((who, [what] if what else []))
    return [f"{who}: {', '.join(what)}" if what else who for who, what in lines]


def scenarios(worlds: Iterable[Scenario], limit: int, say: Say) -> bool:
    """Explore each, breadth first."""
    good = True
    for world in worlds:
        began = perf_counter()
        found = explore(world, limit)
        how_far = found.fault or ("to the end" if found.is_whole else "bounded")
        say(f"  {world.name:38} {found.states:9,} states  {how_far}  ({perf_counter() - began:.0f} s)")
        show(found, say)
        good &= found.fault is None
    return good


def random_paths(worlds: Iterable[Scenario], number: int, say: Say) -> bool:
    """Take random paths through each, with the seeds 0, 1, 2, …"""
    good = True
    for world in worlds:
        steps = 0
        for seed in range(number):
            found = random_path(world, seed, PATH_STEPS)
            steps += found.states
            if found.fault:
                say(f"  {world.name}, seed {seed}: {found.fault}")
                show(found, say)
                good = False
                break
        else:
            say(f"  {world.name:38} {number:6,} paths, seeds 0 to {number - 1}, {steps:9,} steps")
    return good


def rules(say: Say) -> bool:
    """Leave out each rule where it is needed."""
    good = True
    for each in ALL:
        found, base = without(each), explore(each.world, limit=8_000)
        good &= found.fault is not None and base.fault is None
        also = f" (and without: {', '.join(each.also)})" if each.also else ""
        say(f"  {each.rule}: {RULES[each.rule]}{also}")
        say(f"      → {found.fault or 'NOTHING BREAKS'}  ({found.states:,} states)")
        show(found, say)
        if base.fault:
            say(f"      AND WITH IT: {base.fault}")
            show(base, say)
    for rule in UNNEEDED:
        say(f"  {rule}: {RULES[rule]}\n      → nothing breaks: {UNNEEDED[rule]}")
    return good and {each.rule for each in ALL} | set(UNNEEDED) == set(RULES)


def without(each: Counterexample) -> Result:
    """What breaks without a rule."""
    return explore(each.world.without(each.rule, *each.also), limit=100_000, wanted=each.wanted)


def unneeded(worlds: Iterable[Scenario], limit: int, say: Say) -> bool:
    """See that nothing breaks without the rules of which this is said."""
    good = True
    for rule in UNNEEDED:
        for world in worlds:
            found = explore(world.without(rule), limit)
            if found.fault:
                say(f"  without {rule}, {world.name}: {found.fault}")
                show(found, say)
                good = False
    return good


def show(found: Result, say: Say) -> None:
    for line in told(found.trace):
        say(f"        {line}")

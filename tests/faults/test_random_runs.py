"""Random runs: from one seed a topology, its faults, crashes and changes, simulated to its end and judged.

One seed alone: `make test-faults ARGS="-k 'seed_17]'"`.
"""

import os
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.faults.random_runs import SimulatedRun, random_run
from tests.faults.side_by_side import SideBySide
from tests.faults.simulator import wrong_with

KIND = "random runs"
FIRST = int(os.environ.get("FAULTS_FIRST_SEED", "1"))
USUAL_COUNT = 200  # in which everything happens
COUNT = int(os.environ.get("FAULTS_SEEDS", USUAL_COUNT))
OFTEN = 3  # seeds that are not thorough
ALWAYS = 1  # of them, which is not extended either
AT_ONCE = 4

FEATURES = {  # -> in how many of these seeds at least
    "crash": 20,
    "late run": 10,
    "stopped run": 20,
    "step done twice": 10,
    "timeout": 10,
    "replay by hand": 20,
    "change": 10,
    "refused after the ack": 10,
    "table dropped": 10,
    "table changed": 10,
    "compact": 5,
    "trim": 5,
    "backup": 10,
    "DataFrame join of branches": 10,
    "DataFrame join of messages": 10,
    "rich join": 15,
    "named stream": 10,
    "basic bolt": 20,
    "rich bolt": 20,
    "map bolt": 50,
    "rows": 100,
    "aggregates": 30,
    "fan-out": 50,
    "fan-out of 1,000": 1,
    "max_pending": 5,
    "batch_rows": 5,
    "untracked messages": 5,
    "transient failure": 30,
    "permanent failure": 8,
    "attempts used up": 8,
    "Spark raises": 3,
    "bolt added": 3,
    "bolt renamed": 2,
    "bolt of another kind": 3,
}


def cases() -> Iterator[object]:
    for seed in range(FIRST, FIRST + COUNT):
        marks = [pytest.mark.extended] if seed >= FIRST + ALWAYS else []
        marks += [pytest.mark.thorough] if seed >= FIRST + OFTEN else []
        yield pytest.param(seed, marks=marks, id=f"seed_{seed}")


@pytest.fixture(scope="module")
def simulated(asked, crew, empty_store, tmp_path_factory) -> Iterator[SideBySide[int, str]]:
    """All seeds that are asked for, under way, and what is wrong with the end of each."""
    folder = tmp_path_factory.mktemp("seeds")

    def simulate(seed: int) -> str:
        run = random_run(seed, str(folder / f"seed_{seed}"))
        return wrong_with(run, crew, empty_store)

    found = SideBySide(AT_ONCE, simulate, [each["seed"] for each in asked])
    yield found
    crew.end()  # so that a run which is interrupted waits for no simulation's end
    found.stop()


@pytest.mark.parametrize("seed", list(cases()))
def test_a_random_run_ends_as_a_plain_computation_says(seed: int, simulated: SideBySide[int, str]):
    wrong = simulated.end(seed)
    assert not wrong, wrong


def test_nothing_that_may_happen_is_missing_from_the_seeds(capsys):
    runs: list[SimulatedRun] = [random_run(seed, "/nowhere") for seed in range(1, 1 + USUAL_COUNT)]
    counts = Counter(feature for each in runs for feature in each.features)
    with capsys.disabled():
        found = ", ".join(f"{n} {what}" for what, n in sorted(counts.items()))
        print(f"\nof {USUAL_COUNT} random runs: {found}")
    assert [what for what, least in FEATURES.items() if counts[what] < least] == []

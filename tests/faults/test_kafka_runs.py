"""Random runs that read from Kafka topics and publish to them, as random as those on tables.

One seed alone: `make test-faults ARGS="-k 'kafka and seed_17]'"`.
"""

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.faults.random_runs import SimulatedRun, random_run
from tests.faults.side_by_side import SideBySide
from tests.faults.simulator import Crew, wrong_with
from tests.kit.broker import Broker, running_broker

KIND = "random runs on Kafka"
FIRST = int(os.environ.get("FAULTS_FIRST_SEED", "1"))
COUNT = 40
OFTEN = 1  # seeds that are not thorough
AT_ONCE = 3


def cases() -> Iterator[object]:
    for seed in range(FIRST, FIRST + COUNT):
        marks = [pytest.mark.extended, *([pytest.mark.thorough] if seed >= FIRST + OFTEN else [])]
        yield pytest.param(seed, marks=marks, id=f"seed_{seed}")


def on_kafka(run: SimulatedRun, broker: Broker) -> SimulatedRun:
    """The same run, from topics and to topics, which are made; the first record of a source is none of it."""
    shape = replace(run.shape, servers=broker.servers)
    for name in shape.spouts:
        broker.create(shape.topic(name)).add("not a message")
    for stream in (*shape.rows, *shape.sums):
        broker.create(shape.topic(stream))
    actions = [
        replace(each, shape=replace(each.shape, servers=broker.servers)) if each.shape else each
        for each in run.actions
    ]
    return replace(run, shape=shape, actions=actions)


@pytest.fixture(scope="module")
def simulated(
    asked, crew: Crew, empty_store: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SideBySide[int, str]]:
    """All seeds that are asked for, under way, and what is wrong with the end of each."""
    folder = tmp_path_factory.mktemp("seeds")

    def simulate(seed: int) -> str:
        run = on_kafka(random_run(seed, str(folder / f"seed_{seed}")), broker)
        return wrong_with(run, crew, empty_store)

    with running_broker(tmp_path_factory.mktemp("broker")) as broker:
        found = SideBySide(AT_ONCE, simulate, [each["seed"] for each in asked])
        yield found
        crew.end()  # so that a run which is interrupted waits for no simulation's end
        found.stop()


@pytest.mark.parametrize("seed", list(cases()))
def test_a_random_run_on_kafka_ends_as_a_plain_computation_says(seed: int, simulated: SideBySide[int, str]):
    wrong = simulated.end(seed)
    assert not wrong, wrong

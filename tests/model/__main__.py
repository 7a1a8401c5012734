"""Explore the model and print what it finds. Exit code 0 where all is as it should be."""

import argparse
import sys

from tests.model import report
from tests.model.scenarios import COPIED, DOUBLED, LARGE, REFUSED, SMALL


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.model", description=__doc__)
    parser.add_argument("--states", type=int, default=120_000, help="of a scenario, at most")
    parser.add_argument("--paths", type=int, default=300, help="through each of the larger scenarios")
    given = parser.parse_args()

    print(f"Scenarios, breadth first, up to {given.states:,} states each:")
    good = report.scenarios((*SMALL, *DOUBLED, *REFUSED, *COPIED), given.states, say)
    print(f"\nRandom paths of up to {report.PATH_STEPS} steps, each then left undisturbed:")
    good &= report.random_paths(LARGE, given.paths, say)
    print("\nRules, each left out, and the shortest trace that breaks something:")
    good &= report.rules(say)
    good &= report.unneeded(SMALL, 5_000, say)
    print("\nAll is as it should be." if good else "\nNOT as it should be.")
    return 0 if good else 1


def say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())

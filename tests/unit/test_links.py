"""Linked roots, against sets that are merged one link at a time."""

import random
from collections.abc import Iterable
from itertools import pairwise

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from acker.core.fold.settlement_groups import connected

ROOTS = st.integers(-9, 9)
LINKS = {"root_id": pl.Int64, "joined": pl.Int64}


@given(st.lists(st.tuples(ROOTS, ROOTS)))
def test_each_root_is_linked_to_the_smallest_of_its_group(links: list[tuple[int, int]]) -> None:
    assert found(links) == merged(links)


def test_long_chains_of_many_roots_are_each_one_group() -> None:
    rng = random.Random(1)
    chains = [[rng.getrandbits(64) - 2**63 for _ in range(1_000)] for _ in range(100)]
    links = [link for chain in chains for link in pairwise(chain)]
    rng.shuffle(links)
    assert found(links) == {root: min(chain) for chain in chains for root in chain}


def test_a_root_between_many_smaller_ones_links_them() -> None:
    links = [(root, 100) for root in range(100)]
    assert found(links) == dict.fromkeys(range(101), 0)


def found(links: Iterable[tuple[int, int]]) -> dict[int, int]:
    rows = connected(pl.DataFrame(list(links), LINKS, orient="row")).rows()
    assert rows == sorted(set(rows))
    return dict(rows)


def merged(links: Iterable[tuple[int, int]]) -> dict[int, int]:
    groups: dict[int, set[int]] = {}
    for one, other in links:
        both = groups.get(one, {one}) | groups.get(other, {other})
        groups |= dict.fromkeys(both, both)
    return {root: min(group) for root, group in groups.items()}

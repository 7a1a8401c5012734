"""Expressions and frames that are made of many, as trees that are as flat as can be.

A sum of parts that are added one by one is as deep as the parts are many. Neither Spark Connect's messages
nor Java's stack hold a thousand levels.
"""

from collections.abc import Callable, Iterable
from functools import reduce
from operator import or_
from typing import TypeVar

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

T = TypeVar("T")


def combined(combine: Callable[[T, T], T], parts: Iterable[T]) -> T:
    """All parts, of which there is at least one, combined in their order."""
    found = list(parts)
    while len(found) > 1:
        found = [reduce(combine, found[at : at + 2]) for at in range(0, len(found), 2)]
    return found[0]


def any_of(conditions: Iterable[Column]) -> Column:
    """Whether one of the conditions holds; false where there is none."""
    return combined(or_, [*conditions] or [F.lit(False)])


def union_of(frames: Iterable[DataFrame], fills: bool = False) -> DataFrame:
    """The rows of all frames, by the names of their columns.

    Args:
        fills: whether a column that a frame lacks is null there; else the frames have the same columns.
    """
    return combined(lambda one, other: one.unionByName(other, allowMissingColumns=fills), frames)

"""Arguments of what authors call, held against their annotations."""

import inspect
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal, Protocol

import pytest

import acker
from acker.core.arguments import checked
from acker.core.errors import SettingsError
from acker.topology.topology import Topology


class Policy(Protocol):
    def delay(self, failures: int) -> float: ...

    def limit(self) -> int: ...


class Own:
    def __init__(self):
        self.limit = lambda: 3

    def delay(self, failures):
        return 1.0


class Half(Policy):
    def limit(self):
        return 3


@checked
def build(
    name: str = "",
    count: int | None = None,
    share: float = 0.5,
    is_on: bool = True,
    way: Literal["in", "out"] = "in",
    columns: tuple[str, ...] = (),
    keys: str | Iterable[str] = (),
    types: Mapping[str, int] | None = None,
    wait: timedelta | str = "1 hour",
    act: Callable[[int], int] = abs,
    policy: Policy | None = None,
    later: "Topology | None" = None,
    whatever: Any = None,
) -> dict[str, Any]:
    return dict(locals())


@pytest.mark.parametrize(
    ("argument", "value", "given"),
    [
        ("name", Path("a/b"), "a/b"),
        ("count", None, None),
        ("count", 3, 3),
        ("share", 1, 1),
        ("way", "out", "out"),
        ("columns", ["a", "b"], ("a", "b")),
        ("keys", "a", "a"),
        ("keys", {"a": 1}.keys(), ["a"]),
        ("types", {"a": 1}, {"a": 1}),
        ("wait", timedelta(1), timedelta(1)),
        ("act", len, len),
        ("whatever", 3, 3),
    ],
)
def test_what_fits_is_handed_on(argument, value, given):
    assert build(**{argument: value})[argument] == given


def test_what_offers_the_methods_of_a_protocol_fits():
    own, later = Own(), Topology("later")
    built = build(policy=own, later=later)
    assert (built["policy"], built["later"]) == (own, later)


@pytest.mark.parametrize(
    ("argument", "value", "told"),
    [
        ("name", 3, "name of build is 3, an int {}. Give it a text."),
        ("name", b"a", "name of build is b'a', a bytes {}. Give it a text."),
        ("count", True, "count of build is True, a bool {}. Give it a whole number or None."),
        ("count", 1.0, "count of build is 1.0, a float {}. Give it a whole number or None."),
        ("share", "1", "share of build is '1', a text {}. Give it a number."),
        ("is_on", 1, "is_on of build is 1, an int {}. Give it True or False."),
        ("way", "ou", "way of build is 'ou', a text {}. Give it one of 'in', 'out'. Did you mean out?"),
        ("columns", "ab", "columns of build is 'ab', a text {}. Give it a tuple of texts."),
        ("columns", ("a", 3), "columns[1] of build is 3, an int {}. Give it a text."),
        ("keys", 3, "keys of build is 3, an int {}. Give it a text or a list of texts."),
        ("keys", ["a", None], "keys[1] of build is None {}. Give it a text."),
        ("types", {"a": "b"}, "types['a'] of build is 'b', a text {}. Give it a whole number."),
        ("types", ["a"], "types of build is a list {}. Give it a dict of whole numbers by texts or None."),
        ("wait", 600, "wait of build is 600, an int {}. Give it a timedelta or a text."),
        ("act", "f", "act of build is 'f', a text {}. Give it a function."),
        ("policy", Own, "policy of build is the class Own itself {}. Give it a Policy or None."),
        ("policy", Half(), "policy of build is a Half without delay {}. Give it a Policy or None."),
        ("later", Own(), "later of build is an Own {}. Give it a Topology or None."),
    ],
)
def test_what_does_not_fit_is_told_with_its_place(argument, value, told):
    line = inspect.currentframe().f_lineno + 2
    with pytest.raises(SettingsError) as refused:
        build(**{argument: value})
    assert str(refused.value) == told.format(f"({__file__}, line {line})")


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda: Topology("shop", retires=3), "Topology shop has no argument retires"),
        (lambda: Topology(), "Topology lacks its argument name"),
        (lambda: Topology("shop", 3), "Topology shop: too many positional arguments"),
        (lambda: Topology("shop").bolt("a", nmae="b")(len), "bolt len has no argument nmae"),
        (lambda: Topology("shop").publish("a"), "publish a lacks its argument to"),
    ],
)
def test_a_call_that_does_not_go_is_told(call, told):
    with pytest.raises(SettingsError) as refused:
        call()
    assert str(refused.value).startswith(told)


@pytest.mark.parametrize("value", [3, b"x", object(), [3], {3: 3}, lambda: 3, Own], ids=str)
def test_no_public_class_takes_a_value_of_a_wrong_type_for_its_first_argument(value):
    made = [acker.DeltaSpout, acker.FileSpout, acker.Json, acker.Avro, acker.Text, acker.Sum, acker.Min]
    made += [acker.Max, acker.DeltaAppend, acker.ExponentialBackoff, acker.KafkaSpout, acker.KafkaTarget]
    for each in [*made, Topology]:
        if (each, value) != (acker.ExponentialBackoff, 3):
            with pytest.raises(SettingsError, match=rf" of {each.__name__} is .*test_arguments\.py, line"):
                each(value)


@pytest.mark.parametrize(
    ("made", "which"),
    [
        (lambda: acker.FileSpout(""), "folder of FileSpout"),
        (lambda: acker.DeltaSpout("", key="id"), "path of DeltaSpout"),
        (lambda: acker.DeltaAppend(""), "path of DeltaAppend"),
        (lambda: acker.DeltaAggregate("", ("a",), {"n": acker.Count()}), "path of DeltaAggregate"),
    ],
)
def test_an_empty_path_which_would_be_the_current_folder_is_refused(made, which):
    with pytest.raises(SettingsError, match=rf"^{which} is '', a text .*\. Give it a path\.$"):
        made()

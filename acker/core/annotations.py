"""Annotations of arguments: the values that each allows, members that a protocol requires, words for both."""

import inspect
from collections.abc import Callable, Iterable, Mapping
from datetime import date, timedelta
from types import NoneType, UnionType
from typing import Any, ForwardRef, Literal, TypeVar, Union, get_args, get_origin

_SHOWN = 60  # characters of a value
_PLAIN = (str, int, float, bool, bytes, date, timedelta)
_CALLED = {
    str: "a text",
    int: "a whole number",
    float: "a number",
    bool: "True or False",
    NoneType: "None",
    timedelta: "a timedelta",
    "Aggregate": "an aggregate, such as Count()",
    "Column": 'a column of Spark, such as F.col("cents")',
    "KafkaTarget": "a KafkaTarget",
    "RetryPolicy": "a retry policy, such as ExponentialBackoff(limit=3)",
    "RichBolt": "a RichBolt",
    "Scheme": "a scheme, such as Text()",
    "Spout": 'a spout, such as FileSpout("orders")',
    "Stream": "a component",
    "Target": 'a target, such as DeltaAppend("prices")',
}
_PATH = "a path"
_OF_ARGUMENTS = {  # a text or a dict of theirs
    "Avro.schema": "a record of Avro as JSON",
    "aggregates": 'a dict, such as {"n": Count()}',
    "folder": _PATH,
    "hard_timeout": 'a text, such as "1 hour"',
    "inputs": "the name of one",
    "message_timeout": 'a text, such as "10 minutes"',
    "path": _PATH,
    "schema": 'a text, such as "id bigint, name string"',
    "schemes": 'a dict, such as {"orders": Text()}',
    "stream": "the name of one",
    "streams": 'a dict, such as {"late": "id bigint, name string"}',
    "to": _PATH,
}
_ONE_OF_MANY = {str: "texts", int: "whole numbers"}

_Method = TypeVar("_Method", bound=Callable[..., Any])


def optional(method: _Method) -> _Method:
    """Mark a method of a protocol as one that a class may lack."""
    vars(method)["is_optional"] = True
    return method


def missing(protocol: type, kind: type, value: Any = None) -> list[str]:
    """The members that a protocol requires and a class lacks, or has only as the protocol has it.

    Args:
        kind: the class.
        value: an instance of the class, which may have members of its own.
    """
    members = [
        name
        for each in protocol.__mro__
        if getattr(each, "_is_protocol", False)
        for name in vars(each)
        if not name.startswith("_")
    ]
    return [
        name
        for name in dict.fromkeys(members)
        if name not in getattr(value, "__dict__", ())
        and not hasattr(inspect.getattr_static(protocol, name), "is_optional")
        and getattr(kind, name, None) in (None, inspect.getattr_static(protocol, name))
    ]


def arms(hint: Any) -> list[Any]:
    """The alternatives of an annotation, such as the parts of a union. A value needs to fit one of them."""
    if isinstance(hint, str):  # of a class that is not imported for its name alone
        return [NoneType if each.strip() == "None" else each.strip() for each in hint.split("|")]
    if get_origin(hint) in (Union, UnionType):
        return [arm for each in get_args(hint) for arm in arms(each)]
    return [NoneType if hint is None else hint]


def class_name(hint: Any) -> str:
    """The name of the class that an annotation stands for."""
    if isinstance(hint, ForwardRef):
        return hint.__forward_arg__
    return hint if isinstance(hint, str) else str(getattr(hint, "__name__", hint))


def called(hint: Any, name: str = "") -> str:
    """The kinds of values that fit an annotation, in words.

    Args:
        name: of the argument, after the name of its call and a dot. Some arguments have words of their own.
    """
    parts = [_called(arm, name) for arm in arms(hint)]
    *others, last = parts
    comma = "," if others and ", " in others[-1] else ""
    return f"{', '.join(others)}{comma} or {last}" if others else last


def _called(hint: Any, name: str) -> str:
    origin, within = get_origin(hint), get_args(hint)
    if origin is Literal:
        return "one of " + ", ".join(map(repr, within)) if len(within) > 1 else repr(within[0])
    own = _own(name)
    if own is not None and (hint is str or origin is Mapping):
        return own
    if origin is Mapping:
        return f"a dict of {_many(within[1])} by {_many(within[0])}"
    if origin is Callable:
        return "a function"
    if origin is not None and issubclass(origin, Iterable):
        return f"{'a tuple' if origin is tuple else 'a list'} of {_many(within[0])}"
    return _CALLED.get(hint, _CALLED.get(class_name(hint), f"a {class_name(hint)}"))


def is_path(name: str) -> bool:
    """Whether an argument, named after its call and a dot, is a path. An empty path is the current folder."""
    return _own(name) == _PATH


def _own(name: str) -> str | None:
    return _OF_ARGUMENTS.get(name, _OF_ARGUMENTS.get(name.rpartition(".")[2]))


def _many(hint: Any) -> str:
    known = [_ONE_OF_MANY.get(arm) for arm in arms(hint)]
    return known[0] if len(known) == 1 and known[0] else f"which each is {called(hint)},"


def told(value: Any, hint: Any) -> str:
    """The description in an error message of a value that does not fit an annotation.

    Args:
        hint: the annotation. If it is a protocol, the description may name members that the value lacks. If
            it is `Stream`, the description of a function says that no decorator has made it a bolt.
    """
    if isinstance(value, type):
        return f"the class {value.__name__} itself"
    if inspect.isroutine(value):
        is_to_be_bolt = any(class_name(arm) == "Stream" for arm in arms(hint))
        return f"the function {value.__name__}{', which no decorator has made a bolt' * is_to_be_bolt}"
    lacks = [missing(arm, type(value), value) for arm in arms(hint) if getattr(arm, "_is_protocol", False)]
    without = f" without {', '.join(lacks[0])}" if lacks and type(value).__module__ != "builtins" else ""
    if not isinstance(value, _PLAIN):
        return "None" if value is None else f"{_article(type(value).__name__)}{without}"
    return (
        f"{_shown(value)}, {'a text' if isinstance(value, str) else _article(type(value).__name__)}{without}"
    )


def _shown(value: Any) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _article(word: str) -> str:
    return f"{'an' if word[:1].lower() in 'aeiou' else 'a'} {word}"

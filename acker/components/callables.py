"""Checks of authors' functions and classes when the topology is built, before Spark or a run calls them."""

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any, get_args

from acker.components.collector import RichBolt
from acker.core.arguments import fits, refuse_value
from acker.core.authors import place
from acker.core.errors import TopologyError

_METHODS = {  # of a rich bolt -> what it is called with
    "prepare": ("context",),
    "execute": ("tup", "collector"),
    "finish_batch": ("collector",),
    "cleanup": (),
}


def check_called(whose: str, function: Any, *given: str) -> None:
    """Refuse a function that cannot be called with some arguments, or that is `async`.

    Args:
        whose: the name that errors have for the function, such as "Bolt counts".
        given: the names of the arguments that the function is called with.

    Raises:
        TopologyError: the value is no function, takes other arguments, or is `async`.
    """
    if not callable(function):
        raise TopologyError(
            f"{whose} is {function!r:.60} and no function: let its decorator stand above one."
        )
    name = getattr(function, "__name__", type(function).__name__)
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        raise TopologyError(
            f"{whose} is async, and nobody would wait for it{place()}. Write def {name} alone."
        )
    try:
        signature = inspect.signature(function)
    except (ValueError, TypeError):  # of what is not written in Python
        return
    try:
        signature.bind(*given)
    except TypeError as error:
        plain = [each.replace(annotation=each.empty) for each in signature.parameters.values()]
        own = signature.replace(parameters=plain, return_annotation=signature.empty)
        raise TopologyError(
            f"{whose} is called as {name}({', '.join(given)}), and was written as {name}{own}{place()}. "
            "Let it take what it is called with."
        ) from error


def check_done(whose: str, function: Any, way: str) -> None:
    """Refuse a function with a `yield` whose caller takes nothing from it, so that it would do nothing.

    Args:
        whose: see `check_called`.
        way: the advice that ends the error.

    Raises:
        TopologyError: the function has a `yield`. The error says what to do.
    """
    if inspect.isgeneratorfunction(function):
        raise TopologyError(f"{whose} yields, so that nothing of it would be done{place()}. {way}")


def check_rich_bolt(bolt: str, factory: Any) -> None:
    """Refuse a factory that makes no rich bolt.

    Raises:
        TopologyError: the factory is a function that takes tuples, an instance, or a class that is no rich
            bolt or cannot be called as one.
        SettingsError: an attribute of the class is of a wrong type.
    """
    made = factory.func if isinstance(factory, partial) else factory
    name = getattr(made, "__name__", type(made).__name__)
    way = f"Write class {name}(RichBolt), with a method execute(self, tup, collector)."
    if isinstance(made, RichBolt):
        name = type(made).__name__
        raise TopologyError(
            f"Bolt {bolt} is an instance of {name}: give topology.rich_bolt(…) the class itself."
        )
    if not isinstance(made, type):
        if callable(made) and _needs_arguments(factory):
            raise TopologyError(f"Bolt {bolt} is a function, and a rich bolt is a class{place()}. {way}")
        check_called(f"Bolt {bolt}", factory)
        return
    if not issubclass(made, RichBolt):
        raise TopologyError(f"Bolt {bolt} is the class {made.__name__}, which is no RichBolt{place()}. {way}")
    if inspect.isabstract(made):
        raise TopologyError(
            f"Bolt {bolt} cannot take in a tuple{place()}. Give the class {made.__name__} a method "
            "execute(self, tup, collector)."
        )
    check_called(f"Bolt {bolt}", factory)
    for method, given in _METHODS.items():
        function = inspect.getattr_static(made, method)
        own = () if isinstance(function, staticmethod) else ("self",)
        if inspect.isfunction(function):
            check_called(f"{method} of bolt {bolt}", function, *own, *given)
            way = "Call collector.emit(tup, …) in place of `yield`."
            check_done(f"{method} of bolt {bolt}", function, way)
    _check_attributes(bolt, made)


def _needs_arguments(function: Callable[..., Any]) -> bool:
    try:
        inspect.signature(function).bind()
    except TypeError:
        return True
    except ValueError:
        return False
    return False


def _check_attributes(bolt: str, made: type) -> None:
    """Refuse an attribute that is of another type than its base has it, such as `as_text`."""
    for base in made.__mro__:
        for name, hint in inspect.get_annotations(base).items():
            is_ours = base.__module__.startswith("acker.") and str(hint).startswith("typing.ClassVar[")
            value = getattr(made, name, None)
            if not is_ours or hasattr(value, "__get__"):  # a property, say, tells it later
                continue
            (kind,) = get_args(hint)
            if not fits(kind, value):
                refuse_value(f"{name} of bolt {bolt}", value, kind)

"""Checks of the arguments that authors of topologies pass, against their annotations, at each call.

So the error names the place where a wrong argument was written, and not where it is used later. Of objects of
an author's own classes the methods are looked up, and none is called. A list is taken for a tuple, and a
`Path` for a text.
"""

import inspect
import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import wraps
from typing import Any, ForwardRef, Literal, NoReturn, TypeVar, get_args, get_origin

from acker.core.annotations import arms, called, class_name, is_path, missing, told
from acker.core.authors import is_being_defined, place
from acker.core.errors import SettingsError
from acker.core.names import did_you_mean

_Made = TypeVar("_Made", bound=Callable[..., Any])


class _Misfit(Exception):
    """A value does not fit its annotation."""

    def __init__(self, hint: Any, value: Any, at: str = "") -> None:
        self.hint, self.value, self.at = hint, value, at


def checked(made: _Made) -> _Made:
    """Make a function, or a class, check its arguments first.

    Raises:
        SettingsError: by each call, where an argument is of a wrong type, missing or unknown. The error names
            the call.
    """
    if isinstance(made, type):
        made.__init__ = checked(made.__init__)  # type: ignore[misc]
        return made
    signature = inspect.signature(made)

    @wraps(made)
    def checking(*given: Any, **named: Any) -> Any:
        bound = bound_to(_whose(made, given, named), signature, given, named)
        return made(*bound.args, **bound.kwargs)

    return checking  # type: ignore[return-value]


def checked_decorator(made: _Made) -> _Made:
    """As `checked`, for a method that makes a decorator of bolts. An error about an argument names the bolt.

    Raises:
        SettingsError: also where the method itself is called with the bolt, as a decorator without
            parentheses.
    """
    signature = inspect.signature(made)

    @wraps(made)
    def checking(*given: Any, **named: Any) -> Any:
        if len(given) == 2 and not named and is_being_defined(given[1]):
            raise SettingsError(
                f"@{made.__name__} stands above {given[1].__name__} without parentheses{place()}. Write "
                f"@topology.{made.__name__}(…) with what the bolt reads."
            )
        try:
            bound = bound_to(made.__name__, signature, given, named)
        except SettingsError:
            return lambda bolt: bound_to(
                f"bolt {named.get('name') or getattr(bolt, '__name__', '')}", signature, given, named
            )
        return made(*bound.args, **bound.kwargs)

    return checking  # type: ignore[return-value]


def _whose(made: Callable[..., Any], given: Sequence[Any], named: Mapping[str, Any]) -> str:
    """The name of a call in errors, with the name or the stream that is its first argument."""
    label = made.__qualname__.removesuffix(".__init__").rpartition(".")[2]
    parameters = list(inspect.signature(made).parameters)[1:2]
    (of,) = [named.get(name, given[1] if len(given) > 1 else None) for name in parameters] or [None]
    of = getattr(of, "stream_name", of) if parameters in (["name"], ["stream"]) else None
    return f"{label} {of}" if isinstance(of, str) else label


def bound_to(
    whose: str, signature: inspect.Signature, given: Sequence[Any], named: Mapping[str, Any]
) -> inspect.BoundArguments:
    """The arguments of a call, as they are passed to the function.

    Args:
        whose: the name of the call in errors.

    Raises:
        SettingsError: an argument is of a wrong type, missing or unknown.
    """
    parameters = signature.parameters
    try:
        bound = signature.bind(*given, **named)
    except TypeError as error:
        _tell_unbound(whose, error, parameters, named)
    for name, value in bound.arguments.items():
        if not (name == "self" or name.startswith("_")):
            bound.arguments[name] = _checked(whose, parameters[name], value)
    return bound


def _checked(whose: str, parameter: inspect.Parameter, value: Any) -> Any:
    """An argument, as it is passed to the function, after a check against its annotation.

    Args:
        whose: the name of the call in errors.

    Raises:
        SettingsError: the value does not fit the annotation.
    """
    hint, name = parameter.annotation, parameter.name
    try:
        if parameter.kind is parameter.VAR_POSITIONAL:
            return tuple(_within(hint, each, f"[{number}]") for number, each in enumerate(value))
        fitted = _fitted(hint, value)
        if isinstance(fitted, str) and not fitted and is_path(f"{whose}.{name}"):
            raise _Misfit(hint, value)
        return fitted
    except _Misfit as misfit:
        is_within = misfit.at and parameter.kind is not parameter.VAR_POSITIONAL
        argument = "" if is_within else f"{whose}.{name}"
        refuse_value(f"{name}{misfit.at} of {whose}", misfit.value, misfit.hint, argument)


def refuse_value(which: str, value: Any, hint: Any, name: str = "") -> NoReturn:
    """Raise an error about a value that does not fit an annotation.

    Args:
        which: the argument or attribute, and whose it is, in words.
        name: of the argument, see `called`.

    Raises:
        SettingsError: always.
    """
    words = {literal for each in arms(hint) if get_origin(each) is Literal for literal in get_args(each)}
    meant = did_you_mean(value, map(str, words)) if isinstance(value, str) and words else ""
    raise SettingsError(f"{which} is {told(value, hint)}{place()}. Give it {called(hint, name)}.{meant}")


def _fitted(hint: Any, value: Any) -> Any:
    """A value, as it is passed to a function with this annotation.

    Raises:
        _Misfit: the value does not fit.
    """
    misfit = None
    for arm in arms(hint):
        try:
            return _fitted_to(arm, value)
        except _Misfit as error:
            if error.at:  # it is within the value, which is of the right kind
                misfit = error
    raise misfit or _Misfit(hint, value)


def _fitted_to(hint: Any, value: Any) -> Any:
    origin, within = get_origin(hint), get_args(hint)
    if origin is Literal:
        fits = any(value == each and type(value) is type(each) for each in within)
    elif origin is tuple or (origin is not None and origin is not Mapping and issubclass(origin, Iterable)):
        return _several(hint, origin, within[0], value)
    elif origin is Mapping:
        return _mapping(hint, value)
    elif hint is str and isinstance(value, os.PathLike):
        return os.fspath(value)
    elif isinstance(hint, str | ForwardRef):
        fits = class_name(hint) in [each.__name__ for each in type(value).__mro__]
    else:
        fits = _is_a(origin or hint, value)
    if not fits:
        raise _Misfit(hint, value)
    return value


def _several(hint: Any, origin: type, one: Any, value: Any) -> Any:
    is_one_text = isinstance(value, str | bytes | Mapping)
    if is_one_text or not isinstance(value, (list, tuple) if origin is tuple else Iterable):
        raise _Misfit(hint, value)
    if not isinstance(value, Collection):  # it can be gone through only once
        return value
    fitted = [_within(one, each, f"[{place}]") for place, each in enumerate(value)]
    return tuple(fitted) if origin is tuple else fitted


def _mapping(hint: Any, value: Any) -> Any:
    if not isinstance(value, Mapping):
        raise _Misfit(hint, value)
    key, one = get_args(hint)
    for each in value:
        if not fits(key, each):
            raise _Misfit(key, each, ", a key,")
    return {each: _within(one, found, f"[{each!r}]") for each, found in value.items()}


def _within(hint: Any, value: Any, at: str) -> Any:
    try:
        return _fitted(hint, value)
    except _Misfit as misfit:
        raise _Misfit(misfit.hint, misfit.value, at + misfit.at) from None


def fits(hint: Any, value: Any) -> bool:
    """Whether a value fits an annotation."""
    try:
        _fitted(hint, value)
    except _Misfit:
        return False
    return True


def _is_a(kind: Any, value: Any) -> bool:
    """Whether a value is of a class, or has the members that a protocol requires."""
    if kind in (Any, inspect.Parameter.empty) or isinstance(kind, TypeVar):
        return True
    if kind is Callable:
        return callable(value)
    if kind in (int, float) and isinstance(value, bool):
        return False
    if kind is float:
        return isinstance(value, int | float)
    if getattr(kind, "_is_protocol", False):
        return not isinstance(value, type) and not missing(kind, type(value), value)
    return isinstance(value, kind)


def _tell_unbound(
    whose: str, error: TypeError, parameters: Mapping[str, inspect.Parameter], named: Mapping[str, Any]
) -> NoReturn:
    """Raise an error about a call that lacks an argument or has one too many.

    Raises:
        SettingsError: always.
    """
    known = [name for name in parameters if name != "self" and not name.startswith("_")]
    unknown = [name for name in named if name not in known]
    if unknown:
        raise SettingsError(
            f"{whose} has no argument {unknown[0]}{place()}. It has {', '.join(known)}."
            f"{did_you_mean(unknown[0], known)}"
        ) from error
    lacking = str(error).partition("argument: ")[2].strip("'")
    if lacking in parameters:
        raise SettingsError(
            f"{whose} lacks its argument {lacking}{place()}. "
            f"Give it {called(parameters[lacking].annotation, lacking)}."
        ) from error
    raise SettingsError(f"{whose}: {error}{place()}. It takes {', '.join(known)}.") from error

"""Python's values on their way into a bolt's columns: each arrives as it was yielded, or fails its tuple.

Arrow takes much that it changes: 1.5 as 1 into a bigint, 1700000000 as microseconds into a timestamp, 'ab' as
two elements into an array. So a column's values are looked at before it is made. Where all of them are of
classes that Arrow takes exactly, which a set of their classes tells, they are handed over at once. Otherwise
each is turned into such a value, or refused.

The module is pickled by value, so a worker needs PySpark and PyArrow and not this project.
"""

import sys
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import chain
from typing import Any

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql.pandas.types import from_arrow_type

from acker.components.scalars import MISFITS, NOTHING, Refused, Scalars, is_of, misfit, scalars

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]

_NO_LISTS = (str, bytes, bytearray, memoryview)


@dataclass(frozen=True)
class _Lists:
    """The conversion of Python's values for a column of arrays, with the methods of `Scalars`.

    Args:
        kind: the type of the array.
        element: the conversion of its elements.
    """

    kind: pa.DataType
    element: "_Values"

    def are_plain(self, values: Sequence[Any]) -> bool:
        """See `Scalars`."""
        if not {list, tuple, NOTHING}.issuperset(map(type, values)):
            return False
        return self.element.are_plain(list(chain.from_iterable(value for value in values if value)))

    def kept(self, value: Any) -> Any:
        """See `Scalars`."""
        elements = _elements(value)
        return value if elements is None else [*map(self.element.kept, elements)]

    def exact(self, value: Any) -> Any:
        """See `Scalars`."""
        if value is None:
            return None
        elements = _elements(value)
        if elements is None:
            raise Refused(value, self.kind)
        return elements if self.element.are_plain(elements) else [*map(self.element.exact, elements)]


@dataclass(frozen=True)
class _Maps:
    """The conversion of Python's values for a column of maps, with the methods of `Scalars`.

    A value is a dict, or a list of pairs, in which form a bolt is given a map.

    Args:
        kind: the type of the map.
        key: the conversion of its keys.
        item: the conversion of its values.
    """

    kind: pa.DataType
    key: "_Values"
    item: "_Values"

    def are_plain(self, values: Sequence[Any]) -> bool:
        """See `Scalars`."""
        if not {dict, NOTHING}.issuperset(map(type, values)):
            return False
        some = [value for value in values if value]
        keys = list(chain.from_iterable(some))
        items = list(chain.from_iterable(value.values() for value in some))
        return None not in keys and self.key.are_plain(keys) and self.item.are_plain(items)

    def kept(self, value: Any) -> Any:
        """See `Scalars`."""
        if isinstance(value, Mapping):
            return {key: self.item.kept(item) for key, item in value.items()}
        return list(value) if isinstance(value, list) else value

    def exact(self, value: Any) -> Any:
        """See `Scalars`."""
        if value is None:
            return None
        pairs = list(value.items()) if isinstance(value, Mapping) else value
        if not isinstance(pairs, list) or any(type(pair) is not tuple or len(pair) != 2 for pair in pairs):
            raise Refused(value, self.kind)
        found = [(self.key.exact(key), self.item.exact(item)) for key, item in pairs]
        keys = [key for key, _ in found]
        if None in keys or not _are_distinct(keys):
            raise Refused(value, self.kind)
        return found


@dataclass(frozen=True)
class _Structs:
    """The conversion of Python's values for a column of structs, with the methods of `Scalars`.

    A value is a dict, a Row or a named tuple of some of the fields, or a tuple or list of all fields in
    order.

    Args:
        kind: the type of the struct.
        fields: name of a field -> the conversion of its values.
        required: the names of the fields that are NOT NULL.
    """

    kind: pa.DataType
    fields: Mapping[str, "_Values"]
    required: Sequence[str]

    def are_plain(self, values: Sequence[Any]) -> bool:
        """See `Scalars`."""
        if not {dict, NOTHING}.issuperset(map(type, values)):
            return False
        some = [value for value in values if value is not None]
        if not self.fields.keys() >= set(chain.from_iterable(some)):
            return False
        columns = {name: [value.get(name) for value in some] for name in self.fields}
        if any(None in columns[name] for name in self.required):
            return False
        return all(field.are_plain(columns[name]) for name, field in self.fields.items())

    def kept(self, value: Any) -> Any:
        """See `Scalars`."""
        given = _by_name(value, list(self.fields))
        if given is None or not self.fields.keys() >= given.keys():
            return value
        return {name: self.fields[name].kept(each) for name, each in given.items()}

    def exact(self, value: Any) -> Any:
        """See `Scalars`."""
        if value is None:
            return None
        given = _by_name(value, list(self.fields))
        if given is None or not self.fields.keys() >= given.keys():
            raise Refused(value, self.kind)
        if any(given.get(name) is None for name in self.required):
            raise Refused(value, self.kind)
        return {name: _within(name, self.fields[name], each) for name, each in given.items()}


_Values = Scalars | _Lists | _Maps | _Structs


@dataclass(frozen=True)
class ValueColumn:
    """A column of a bolt's, which takes Python's values."""

    name: str
    kind: pa.DataType
    values: _Values

    @classmethod
    def of(cls, field: pa.Field) -> "ValueColumn":
        """The column of a schema's field."""
        return cls(field.name, field.type, _values_of(field.type))

    @property
    def is_mutable(self) -> bool:
        """Whether the bolt can change a value that it has emitted."""
        return not isinstance(self.values, Scalars) or pa.types.is_binary(self.kind)

    def array(self, values: Sequence[Any]) -> pa.Array:
        """The values as an array.

        Raises:
            ValueError: one of them cannot be taken as it is. The error tells the value and the column.
        """
        if self.values.are_plain(values):
            try:
                return pa.array(values, self.kind)
            except MISFITS:
                pass  # a number that is too large, say: it is looked for, value by value
        exact = [self._exact(value) for value in values]
        try:
            return pa.array(exact, self.kind)
        except MISFITS:
            for value, each in zip(values, exact, strict=True):
                self._try(value, each)
            raise

    def _exact(self, value: Any) -> Any:
        try:
            return self.values.exact(value)
        except Refused as refused:
            raise self._misfit(refused.value, refused.kind, refused.path) from None

    def _try(self, value: Any, exact: Any) -> None:
        try:
            pa.array([exact], self.kind)
        except MISFITS:
            raise self._misfit(value, self.kind) from None

    def _misfit(self, value: Any, kind: pa.DataType, path: str = "") -> Exception:
        name = from_arrow_type(kind, prefer_timestamp_ntz=True).simpleString()
        return misfit(ValueError, f"column {self.name}{path}:", value, f" is no {name}")


def _elements(value: Any) -> Sequence[Any] | None:
    """The elements of a value that stands for an array; None where it does not."""
    if is_of(value, "numpy") or is_of(value, "pandas"):
        numbers = getattr(getattr(value, "dtype", None), "kind", "") in tuple("biufU")
        if not getattr(value, "ndim", False) or (value.ndim > 1 and not is_of(value, "numpy")):
            return None
        # Numbers of Python's at once; its timestamps NumPy would give as integers.
        found: list[Any] = value.tolist() if numbers and value.ndim == 1 else list(value)
        return found
    has_names = hasattr(value, "_fields") or hasattr(value, "__fields__")
    if isinstance(value, Sequence | Set) and not isinstance(value, _NO_LISTS) and not has_names:
        return list(value)
    return None


def _by_name(value: Any, names: Sequence[str]) -> Mapping[str, Any] | None:
    """The fields of a value that stands for a struct, by name; None where the value stands for none.

    Args:
        names: the names of the struct's fields, in order. They count where the value has no names of its own.
    """
    if isinstance(value, Mapping):
        return value
    own = getattr(value, "__fields__", None) or getattr(value, "_fields", None) or names
    if not isinstance(value, tuple | list) or len(value) != len(own) or len(set(own)) < len(own):
        return None
    return dict(zip(own, value, strict=True))


def _are_distinct(keys: Sequence[Any]) -> bool:
    try:
        return len(set(keys)) == len(keys)
    except TypeError:  # they are lists, say
        return len({repr(key) for key in keys}) == len(keys)


def _within(name: str, values: _Values, value: Any) -> Any:
    try:
        return values.exact(value)
    except Refused as refused:
        raise Refused(refused.value, refused.kind, f".{name}{refused.path}") from None


def _values_of(kind: pa.DataType) -> _Values:
    if pa.types.is_list(kind):
        return _Lists(kind, _values_of(kind.value_type))
    if pa.types.is_map(kind):
        return _Maps(kind, _values_of(kind.key_type), _values_of(kind.item_type))
    if pa.types.is_struct(kind):
        fields = [kind.field(number) for number in range(kind.num_fields)]
        required = [field.name for field in fields if not field.nullable]
        return _Structs(kind, {field.name: _values_of(field.type) for field in fields}, required)
    return scalars(kind)

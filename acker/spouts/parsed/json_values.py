"""Values of JSON as values of Spark's types, exactly, or a misfit.

Python's decoder reads a text, and keeps its numbers as they are written. Pickled by value, as
`acker.spouts.parsed.texts` is.
"""

import base64
import json
import sys
from collections.abc import Sequence
from datetime import tzinfo
from typing import Any

from pyspark import cloudpickle
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegralType,
    MapType,
    StringType,
    StructType,
)

from acker.spouts.parsed.texts import NO_VALUE, Misfit, Reader, checked_text, has_digits, text_reader

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]


class Number(str):
    """A number, as it is written."""

    __slots__ = ()


class Twice(dict[str, Any]):
    """An object in which keys occur more than once."""

    def __init__(self, pairs: Sequence[tuple[str, Any]]) -> None:
        super().__init__()
        self.keys_twice = set()
        for name, value in pairs:
            if name in self:
                self.keys_twice.add(name)
            self[name] = value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    return found if len(found) == len(pairs) else Twice(pairs)


def json_decoder() -> json.JSONDecoder:
    """Python's decoder, set to keep numbers as they are written and to note keys that occur twice."""
    return json.JSONDecoder(
        object_pairs_hook=_object, parse_float=Number, parse_int=Number, parse_constant=Number
    )


def decoded(decoder: json.JSONDecoder, text: str) -> dict[str, Any]:
    """The object that a text is.

    Raises:
        Misfit: the text is no object.
    """
    try:
        found = decoder.decode(text)
    except json.JSONDecodeError as error:
        raise Misfit("more follows the object" if error.msg == "Extra data" else "") from None
    if isinstance(found, dict):
        return found
    raise Misfit("")


def _reader(kind: DataType, zone: tzinfo) -> Reader:
    """Return the function that reads a decoded value as one of a type, or raises a `Misfit`."""
    match kind:
        case StructType():
            read = struct_reader([(field.name, field.dataType) for field in kind.fields], zone)
            wanted: type = dict
        case ArrayType():
            read, wanted = _array(_reader(kind.elementType, zone)), list
        case MapType():
            read, wanted = _map(_reader(kind.valueType, zone)), dict
        case _:
            return _atom(kind, zone)

    def checked(value: Any) -> Any:
        if value is None:
            return None
        if not isinstance(value, wanted):
            raise Misfit.of(written(value), kind)
        return read(value)

    return checked


def struct_reader(fields: Sequence[tuple[str, DataType]], zone: tzinfo) -> Reader:
    """Return the function that reads a decoded object as a row of such fields, or raises a `Misfit`."""
    readers = [(name, _reader(kind, zone)) for name, kind in fields]

    def read(value: dict[str, Any]) -> dict[str, Any]:
        found = {}
        for name, of_field in readers:
            if isinstance(value, Twice) and name in value.keys_twice:
                raise Misfit("the key is there twice", name)
            try:
                found[name] = of_field(value.get(name))
            except Misfit as misfit:
                raise misfit.below(name) from None
        return found

    return read


def _array(of_element: Reader) -> Reader:
    def read(value: list[Any]) -> list[Any]:
        found = []
        for place, element in enumerate(value):
            try:
                found.append(of_element(element))
            except Misfit as misfit:
                raise misfit.below(f"[{place}]") from None
        return found

    return read


def _map(of_value: Reader) -> Reader:
    def read(value: dict[str, Any]) -> list[tuple[str, Any]]:
        if isinstance(value, Twice):
            raise Misfit("the key is there twice", min(value.keys_twice))
        found = []
        for key, each in value.items():
            try:
                found.append((checked_text(key), of_value(each)))
            except UnicodeEncodeError:
                raise Misfit.of(written(key), StringType()) from None
            except Misfit as misfit:
                raise misfit.below(key) from None
        return found

    return read


def _atom(kind: DataType, zone: tzinfo) -> Reader:
    convert = _from_base64 if isinstance(kind, BinaryType) else text_reader(kind, zone)

    def read(value: Any) -> Any:
        if value is None or (isinstance(kind, BooleanType) and isinstance(value, bool)):
            return value
        try:
            if isinstance(kind, StringType):
                return checked_text(value if type(value) is str else written(value))
            if isinstance(value, str) and _takes(kind, value):
                return convert(value)
        except NO_VALUE:
            pass
        raise Misfit.of(written(value), kind)

    return read


def _takes(kind: DataType, value: str) -> bool:
    """Whether a type may be read from a value, which is a number or a string."""
    number = isinstance(value, Number)
    match kind:
        case DecimalType():
            return True
        case FloatType() | DoubleType():
            return number or not has_digits(value)
        case IntegralType():
            return number
    return not number and not isinstance(kind, BooleanType)


def _from_base64(text: str) -> bytes:
    found = base64.b64decode(text, validate=True)
    if base64.b64encode(found).decode() != text:  # bits are left over
        raise ValueError(text)
    return found


def written(value: Any) -> str:
    """A decoded value as JSON without blanks, its numbers and keys as they were.

    Raises:
        Misfit: an object has a key twice.
    """
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case Number():
            return str(value)
        case str():
            return json.dumps(value, ensure_ascii=False)
        case list():
            return f"[{','.join(map(written, value))}]"
        case Twice():
            raise Misfit("the key is there twice", min(value.keys_twice))
    return f"{{{','.join(f'{written(key)}:{written(each)}' for key, each in value.items())}}}"

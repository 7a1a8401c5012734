"""The reasons why Spark cannot read a Parquet file, from the bytes of the file's footer.

PyArrow reads the rest of a footer. But it ends the process where it is asked for an encrypted column, so that
one file would stop all. The footer is a struct of Thrift's compact protocol; the numbers of its fields are
those of `parquet.thrift`.
"""

from collections.abc import Iterator

_ROW_GROUPS, _COLUMNS, _META_DATA, _ENCODINGS, _CODEC = 4, 1, 3, 2, 4
_ENCRYPTED = (8, 9)  # fields of a column
_CODECS = {
    3: "packed as LZO, which Spark does not unpack",
    4: "packed as Brotli, which Spark does not unpack",
}
_BYTE_STREAM_SPLIT = 9
_TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = 1, 2, 3, 7, 8, 9, 10, 11, 12


def unreadable(footer: bytes) -> str | None:
    """Why Spark cannot read the first row group; None where it can.

    Args:
        footer: a file's metadata, without its length and the magic number.

    Raises:
        ValueError: the bytes are no such metadata.
    """
    try:
        return next(_unreadable(_Compact(footer)), None)
    except (IndexError, RecursionError) as error:
        raise ValueError("its footer is damaged") from error


def _unreadable(data: "_Compact") -> Iterator[str]:
    for _ in data.elements_of(_ROW_GROUPS):
        for _ in data.elements_of(_COLUMNS):
            for number, kind in data.fields():
                if number in _ENCRYPTED:
                    yield "encrypted"
                if number == _META_DATA:
                    yield from _of_column(data)
                else:
                    data.skip(kind)
        return


def _of_column(data: "_Compact") -> Iterator[str]:
    for number, kind in data.fields():
        if number == _CODEC:
            codec = data.integer()
            if codec in _CODECS:
                yield _CODECS[codec]
        elif number == _ENCODINGS:
            if _BYTE_STREAM_SPLIT in [data.integer() for _ in data.elements()]:
                yield "encoded as BYTE_STREAM_SPLIT, which Spark does not read"
        else:
            data.skip(kind)


class _Compact:
    """A reader of Thrift's compact protocol, from the first byte on."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def byte(self) -> int:
        """The next byte."""
        self.at += 1
        return self.data[self.at - 1]

    def varint(self) -> int:
        """The next number without a sign."""
        found, shift = 0, 0
        while True:
            byte = self.byte()
            found |= (byte & 127) << shift
            if byte < 128:
                return found
            shift += 7

    def integer(self) -> int:
        """The next number with a sign."""
        found = self.varint()
        return found >> 1 ^ -(found & 1)

    def fields(self) -> Iterator[tuple[int, int]]:
        """The number and type of each field of a struct; the caller reads or skips each before the next."""
        number = 0
        while head := self.byte():
            number = number + (head >> 4) if head >> 4 else self.integer()
            yield number, head & 15

    def elements_of(self, wanted: int) -> Iterator[int]:
        """The type of each element of the list in the field `wanted`.

        The reader stands at the beginning of the struct that has the field. The caller reads or skips each
        element before the next.
        """
        for number, kind in self.fields():
            if number == wanted:
                yield from self.elements()
            else:
                self.skip(kind)

    def elements(self) -> Iterator[int]:
        """The type of each element of the list at which the reader stands.

        The caller reads or skips each element before the next.
        """
        head = self.byte()
        size = head >> 4 if head >> 4 < 15 else self.varint()
        for _ in range(size):
            yield head & 15

    def skip(self, kind: int) -> None:
        """Pass over a value."""
        if kind in (_TRUE, _FALSE):
            pass  # in the head of the field
        elif kind == _BYTE:
            self.at += 1
        elif kind == _DOUBLE:
            self.at += 8
        elif kind == _BINARY:
            length = self.varint()
            self.at += length
        elif kind in (_LIST, _SET):
            for each in self.elements():
                self.skip(_BYTE if each in (_TRUE, _FALSE) else each)
        elif kind == _MAP:
            size = self.varint()
            kinds = self.byte() if size else 0
            for _ in range(size):
                self.skip(kinds >> 4)
                self.skip(kinds & 15)
        elif kind == _STRUCT:
            for _, each in self.fields():
                self.skip(each)
        else:
            self.varint()

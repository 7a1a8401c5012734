"""Digests of rows: 64 bits that depend on a row's content alone, wherever the row lies and whoever wrote it.

Digests add up: those of a message's rows, or of all rows that a trimming deletes, are summed modulo 2^64. So
the order of rows does not matter, and each row counts as often as it is there. Sums are kept in stores for
ever, so no digest may change: digests are made from Arrow's buffers alone, and not by a library's own hash.

Equal rows have equal digests. A column counts by its name, in upper or lower case alike. A null adds nothing,
so a column that is added later changes no digest. A whole number within 64 bits counts by its value alone: 1
as bigint, decimal or double has the same digest. Any other decimal counts by its value among decimals, any
other double among doubles. 0.0 and −0.0 have the same digest, and so have all NaN. Times count as
microseconds, dates as the microseconds of their midnight. The order of a struct's fields and of a map's
entries does not count, the order of an array's elements does.
"""

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from acker.core.store.ids import hash64

Numbers = npt.NDArray[np.uint64]

_FACTORS = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))  # of SplitMix64, see `ids`
_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_SHIFTS = (np.uint64(30), np.uint64(27), np.uint64(31))
_WORD = 8  # bytes
_DAY = 86_400_000_000  # microseconds
_INT64 = 2.0**63
_POWERS = (9, 9, 9, 9, 4, 2, 1, 1)  # of ten, by which zeros are taken away; each fits into 32 bits


class NoDigest(Exception):
    """A column is of a type whose values have no digest."""


def row_digests(rows: pa.RecordBatch, columns: Sequence[str], root: str | None = None) -> Numbers:
    """The digest of each row.

    Args:
        columns: names of the columns that count.
        root: name of a column of root ids that a digest depends on as well, so that no two messages' rows can
            be exchanged; a null adds nothing.

    Raises:
        NoDigest: a column is of a type whose values have no digest.
    """
    total = np.zeros(rows.num_rows, np.uint64)
    for name in columns:
        total += _named(name, rows.column(name))
    if root is not None:
        total += _digest(rows.column(root))
    return _mixed(total)


def value_digests(values: pa.Array) -> Numbers:
    """The digest of each value, 0 of null.

    Raises:
        NoDigest: the values are of a type that has no digest.
    """
    return _digest(values)


def frame_digests(rows: pl.DataFrame, columns: Sequence[str]) -> Numbers:
    """The digest of each row of a frame; see `row_digests`."""
    if rows.is_empty():
        return np.empty(0, np.uint64)
    found = rows.select(columns).rechunk().to_arrow(compat_level=pl.CompatLevel.oldest())
    return row_digests(found.combine_chunks().to_batches()[0], columns)


def _named(name: str, values: pa.Array) -> Numbers:
    """The numbers that a column, or a struct's field, adds to the digests of its rows."""
    found = _digest(values)
    seed = np.uint64(hash64(name.lower()) % 2**64)
    return np.where(found == 0, found, _mixed(found + seed))


def _digest(values: pa.Array) -> Numbers:
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    found = _maker(values.type)(values)
    found[found == 0] = _GAMMA  # which is null's
    if values.null_count:
        found[values.is_null().to_numpy(zero_copy_only=False)] = 0
    return found


def _maker(kind: pa.DataType) -> Callable[[pa.Array], Numbers]:
    for fits, make in _MAKERS:
        if fits(kind):
            return make
    raise NoDigest(f"{kind}")


def _mixed(numbers: Numbers) -> Numbers:
    """The output of SplitMix64 for each state; 0 stays 0."""
    state = numbers.copy()
    for shift, factor in zip(_SHIFTS, _FACTORS, strict=False):
        state ^= state >> shift
        state *= factor
    state ^= state >> _SHIFTS[-1]
    return state


def _of_whole(numbers: npt.NDArray[np.int64]) -> Numbers:
    return _mixed(numbers.view(np.uint64) + _GAMMA)


def _filled(values: pa.Array, kind: pa.DataType) -> npt.NDArray[np.int64]:
    """Values as whole numbers, with 0 for null."""
    found = values.cast(kind).fill_null(0) if values.null_count else values.cast(kind)
    return np.asarray(found.to_numpy(zero_copy_only=False)).copy()


def _whole(values: pa.Array) -> Numbers:
    return _of_whole(_filled(values, pa.int64()))


def _date(values: pa.Array) -> Numbers:
    return _of_whole(_filled(values.cast(pa.int32()), pa.int64()) * _DAY)


def _time(values: pa.Array) -> Numbers:
    """Digests of times, as `deltalake` reads times that Spark has written.

    `deltalake` converts them through nanoseconds of 64 bits, which begin anew after 584 years. So digests of
    times do the same.
    """
    times = _filled(values.cast(pa.timestamp("us", values.type.tz)), pa.int64()) * 1000
    return _of_whole(times // 1000 + ((times < 0) & (times % 1000 != 0)))


def _floating(values: pa.Array) -> Numbers:
    wide = values.cast(pa.float64())
    numbers = np.asarray(wide.fill_null(0.0).to_numpy(zero_copy_only=False)).copy()
    is_nan = np.isnan(numbers)
    numbers[is_nan] = 0.5
    is_whole = (np.floor(numbers) == numbers) & (np.abs(numbers) < _INT64)
    found = _mixed(_mixed(numbers.view(np.uint64) + _GAMMA) + _GAMMA)
    found[is_whole] = _of_whole(numbers[is_whole].astype(np.int64))
    found[is_nan] = _FACTORS[0]
    return found


def _decimal(values: pa.Array) -> Numbers:
    """Digests of decimals: of the digits without the fraction's trailing zeros, and of the scale left."""
    wide = values.cast(pa.decimal128(38, values.type.scale))
    words = np.frombuffer(wide.buffers()[1], np.uint64).reshape(-1, 2)[wide.offset : wide.offset + len(wide)]
    low, high = words[:, 0].copy(), words[:, 1].copy()
    if values.null_count:
        is_null = values.is_null().to_numpy(zero_copy_only=False)
        low[is_null] = high[is_null] = 0
    is_negative = high >> np.uint64(63) == 1
    low, high = _negated(low, high, is_negative)
    low, high, scales = _stripped(low, high, values.type.scale)
    low, high = _negated(low, high, is_negative)
    digits = low.view(np.int64)
    found = _of_whole(digits)
    is_long = high != np.where(digits < 0, np.uint64(2**64 - 1), np.uint64(0))
    found[is_long] = _mixed(found[is_long] + high[is_long] * _GAMMA)
    has_scale = scales > 0
    found[has_scale] = _mixed(found[has_scale] + _mixed(scales[has_scale] * _GAMMA))
    return found


def _negated(low: Numbers, high: Numbers, which: npt.NDArray[np.bool_]) -> tuple[Numbers, Numbers]:
    """Numbers of 128 bits, with the other sign where `which` is true.

    Args:
        low: the lower 64 bits of each number.
        high: the upper 64 bits of each number.
    """
    other = ~low + np.uint64(1)
    return np.where(which, other, low), np.where(which, ~high + (other == 0).astype(np.uint64), high)


def _stripped(low: Numbers, high: Numbers, scale: int) -> tuple[Numbers, Numbers, Numbers]:
    """Numbers of 128 bits and their scales, without trailing zeros as far as the scale allows."""
    scales = np.full(len(low), max(scale, 0), np.uint64)
    for power in _POWERS:
        if power > scale:
            continue
        whole_low, whole_high, rest = _divided(low, high, np.uint64(10**power))
        shorter = (rest == 0) & (scales >= power)
        low, high = np.where(shorter, whole_low, low), np.where(shorter, whole_high, high)
        scales[shorter] -= np.uint64(power)
    return low, high, scales


def _divided(low: Numbers, high: Numbers, by: np.uint64) -> tuple[Numbers, Numbers, Numbers]:
    """Quotients of 128 bits, and remainders: a division by hand, whose digits have 32 bits."""
    half, last = np.uint64(32), np.uint64(2**32 - 1)
    rest = np.zeros(len(low), np.uint64)
    quotients = []
    for digit in (high >> half, high & last, low >> half, low & last):
        whole, rest = np.divmod((rest << half) | digit, by)
        quotients.append(whole)
    return (quotients[2] << half) | quotients[3], (quotients[0] << half) | quotients[1], rest


def _bytes(values: pa.Array) -> Numbers:
    """Digests of texts and bytes: a sum over their words of eight bytes, each mixed with its place."""
    wide = values.cast(pa.large_binary())
    _, offsets, data = wide.buffers()
    ends = np.frombuffer(offsets, np.int64)[wide.offset : wide.offset + len(wide) + 1]
    lengths = np.diff(ends)
    counts = (lengths + _WORD - 1) // _WORD
    found = np.zeros(len(wide), np.uint64)
    first = np.concatenate(([0], np.cumsum(counts)))
    if first[-1]:
        place = np.arange(first[-1]) - np.repeat(first[:-1], counts)
        start = np.repeat(ends[:-1], counts) + place * _WORD
        words = _words(data, ends[0], ends[-1], start - ends[0])
        left = np.repeat(lengths, counts) - place * _WORD
        words &= np.uint64(2**64 - 1) >> (np.uint64(8) * (_WORD - np.minimum(left, _WORD)).astype(np.uint64))
        words = _mixed(words + (place.astype(np.uint64) + np.uint64(1)) * _GAMMA)
        found = _summed(words, first)
    return _mixed(found + (lengths.astype(np.uint64) + np.uint64(1)) * _FACTORS[1])


def _words(data: pa.Buffer, begin: int, end: int, starts: npt.NDArray[np.int64]) -> Numbers:
    """The word of eight bytes at each of some places in the bytes [begin, end) of a buffer.

    Args:
        starts: where each word begins, counted from `begin`. A word that goes past `end` has zeros there.
    """
    padded = np.zeros(end - begin + _WORD, np.uint8)
    padded[: end - begin] = np.frombuffer(data, np.uint8)[begin:end]
    each = np.ndarray(end - begin + 1, "<u8", padded, strides=(1,))
    return each[starts].astype(np.uint64)


def _summed(numbers: Numbers, first: npt.NDArray[np.int64]) -> Numbers:
    """The sum of each row's numbers.

    Args:
        numbers: the numbers of all rows, those of one row after those of the other.
        first: the index of each row's first number, and as last entry the length of `numbers`.
    """
    sums = np.concatenate((np.zeros(1, np.uint64), np.cumsum(numbers, dtype=np.uint64)))
    return np.asarray(sums[first[1:]] - sums[first[:-1]])


def _struct(values: pa.Array) -> Numbers:
    found = np.full(len(values), _FACTORS[0])
    for field, child in zip(values.type, values.flatten(), strict=True):
        found += _named(field.name, child)
    return _mixed(found)


def _list(values: pa.Array) -> Numbers:
    first = np.asarray(values.offsets.to_numpy()).astype(np.int64)
    elements = _digest(values.values[first[0] : first[-1]])
    place = np.arange(len(elements)) - np.repeat(first[:-1] - first[0], np.diff(first))
    mixed = _mixed(elements + _mixed((place.astype(np.uint64) + np.uint64(1)) * _GAMMA))
    return _with_length(_summed(mixed, first - first[0]), first)


def _map(values: pa.Array) -> Numbers:
    first = np.asarray(values.offsets.to_numpy()).astype(np.int64)
    mine = slice(first[0], first[-1])
    entries = _mixed(_digest(values.keys[mine]) * _FACTORS[0] + _digest(values.items[mine]) * _FACTORS[1])
    return _with_length(_summed(entries, first - first[0]), first)


def _with_length(sums: Numbers, first: npt.NDArray[np.int64]) -> Numbers:
    return _mixed(sums + (np.diff(first).astype(np.uint64) + np.uint64(1)) * _GAMMA)


def _nothing(values: pa.Array) -> Numbers:
    return np.zeros(len(values), np.uint64)


def _is_text(kind: pa.DataType) -> bool:
    views = pa.types.is_string_view(kind) or pa.types.is_binary_view(kind)
    wide = pa.types.is_large_string(kind) or pa.types.is_large_binary(kind)
    return bool(views or wide or pa.types.is_string(kind) or pa.types.is_binary(kind))


_MAKERS: Sequence[tuple[Callable[[pa.DataType], bool], Callable[[pa.Array], Numbers]]] = (
    (_is_text, _bytes),
    (pa.types.is_signed_integer, _whole),
    (pa.types.is_boolean, _whole),
    (pa.types.is_floating, _floating),
    (pa.types.is_decimal, _decimal),
    (pa.types.is_timestamp, _time),
    (pa.types.is_date32, _date),
    (pa.types.is_struct, _struct),
    (pa.types.is_map, _map),
    (lambda kind: pa.types.is_list(kind) or pa.types.is_large_list(kind), _list),
    (pa.types.is_null, _nothing),
)

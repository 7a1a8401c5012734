"""Sums of the rows of a table, root by root: the number of rows, and the sum of their digests.

A table is read once, from its beginning to its end, in pieces. Of each row only the root and the digest are
kept, 16 bytes. Where roots are many they go to files of a temporary folder, one for each pass of an audit, so
that memory has a bound.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
from deltalake import DeltaTable

from acker.core.digests import NoDigest, row_digests
from acker.core.store.schemas import is_tuple
from acker.core.store.tables import query_batches

ROWS_AT_ONCE, BYTES_AT_ONCE = 200_000, 64 << 20
_RECORD = np.dtype([("root", "<i8"), ("digest", "<u8")])
_WRITTEN = "__CHAR_VARCHAR_TYPE_STRING"  # in a column's metadata: its type as Spark wrote it
SUMS = pl.Schema({"root_id": pl.Int64, "rows": pl.Int64, "digest": pl.Int64})


@dataclass(frozen=True)
class Sum:
    """The number of some rows, and the sum of their digests modulo 2^64, as a signed number."""

    rows: int = 0
    digest: int = 0

    def plus(self, rows: int, digest: int) -> "Sum":
        """The sum with further rows."""
        return Sum(self.rows + rows, (self.digest + digest + 2**63) % 2**64 - 2**63)


class Contents:
    """Sums by root of the rows of some tables, those of no root in one sum.

    Args:
        passes: how many passes there are. The remainder of a root's id, divided by `passes`, is the number of
            the root's pass.
        padded: columns, in small letters, whose blanks at the end do not count.
    """

    def __init__(self, passes: int, padded: frozenset[str] = frozenset()) -> None:
        self.of_no_root = Sum()
        self.with_values: set[str] = set()  # columns, in small letters, that are not null everywhere
        self._passes = passes
        self._padded = padded
        self._folder = TemporaryDirectory(prefix="acker-audit-") if passes > 1 else None
        self._held: list[npt.NDArray[Any]] = []

    def __enter__(self) -> "Contents":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._folder is not None:
            self._folder.cleanup()

    def take_stream(self, name: str, table: DeltaTable, where: str = "true", tracked: str = "true") -> None:
        """Take in the tuples of a stream.

        Args:
            where: a SQL condition on the tuples with no root.
            tracked: a SQL condition on the other tuples.
        """
        columns = [field.name for field in table.schema().fields]
        mine = f"(_root_id IS NULL AND {where}) OR (_root_id IS NOT NULL AND {tracked})"
        self._take(table, users(table), f"{is_tuple(name, columns)} AND ({mine})")

    def take_rows(self, table: DeltaTable, columns: Sequence[str]) -> None:
        """Take in all rows of a published table.

        Args:
            columns: the columns that count, in any case. A column that the table does not have is null.
        """
        counted = {name.lower() for name in columns}
        there = [name for name in users(table) if name.lower() in counted]
        self._take(table, there, "true")

    def _read(self, name: str) -> str:
        quoted = '"' + name.replace('"', '""') + '"'
        return f"rtrim({quoted}) AS {quoted}" if name.lower() in self._padded else quoted

    def _take(self, table: DeltaTable, columns: Sequence[str], where: str) -> None:
        names = ", ".join(self._read(name) for name in ("_root_id", *columns))
        for rows in _joined(query_batches(f"SELECT {names} FROM rows WHERE {where}", rows=table)):
            digests = row_digests(rows, columns, "_root_id")
            filled = (name for name in columns if rows.column(name).null_count < rows.num_rows)
            self.with_values.update(name.lower() for name in filled)
            is_none = rows.column("_root_id").is_null().to_numpy(zero_copy_only=False)
            none = digests[is_none]
            self.of_no_root = self.of_no_root.plus(len(none), int(none.sum(dtype=np.uint64)))
            self.take(rows.column("_root_id").drop_null().to_numpy(), digests[~is_none])

    def take(self, roots: npt.NDArray[np.int64], digests: npt.NDArray[np.uint64]) -> None:
        """Take in rows by their roots and digests."""
        found = np.empty(len(roots), _RECORD)
        found["root"], found["digest"] = roots, digests
        self._keep(found)

    def _keep(self, found: npt.NDArray[Any]) -> None:
        if self._folder is None:
            self._held.append(found)
            return
        part = found["root"] % self._passes
        order = np.argsort(part, kind="stable")
        ends = np.searchsorted(part[order], np.arange(self._passes + 1))
        for number in np.flatnonzero(np.diff(ends)):
            with self._file(int(number)).open("ab") as file:
                file.write(found[order[ends[number] : ends[number + 1]]].tobytes())

    def _file(self, number: int) -> Path:
        assert self._folder is not None
        return Path(self._folder.name, str(number))

    def sums(self, number: int) -> pl.DataFrame:
        """`root_id`, `rows` and `digest` of the roots of a pass."""
        if self._folder is None:
            parts = self._held
        else:
            path = self._file(number)
            parts = [np.fromfile(path, _RECORD)] if path.exists() else []
        each = np.concatenate(parts) if parts else np.empty(0, _RECORD)
        rows = pl.DataFrame(
            {"root_id": each["root"].astype(np.int64), "digest": each["digest"].astype(np.uint64)}
        ).with_columns(pl.col("digest").reinterpret(signed=True))
        return rows.group_by("root_id").agg(rows=pl.len().cast(pl.Int64), digest=pl.col("digest").sum())


def users(table: DeltaTable) -> list[str]:
    """The user's columns of a stream or of a published table."""
    return [field.name for field in table.schema().fields if not field.name.startswith("_")]


def _joined(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows of record batches, in larger pieces."""
    held: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        held.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= ROWS_AT_ONCE or size >= BYTES_AT_ONCE:
            yield pa.concat_batches(held)
            held, rows, size = [], 0, 0
    if held:
        yield pa.concat_batches(held)


def padded(table: DeltaTable | None) -> frozenset[str]:
    """The columns, in small letters, of type CHAR, which Delta fills up with blanks.

    Raises:
        NoDigest: a type CHAR is within another type.
    """
    found = set()
    for field in [] if table is None else table.schema().fields:
        kind = str(field.metadata.get(_WRITTEN, ""))
        if re.fullmatch(r"char\(\d+\)", kind):
            found.add(field.name.lower())
        elif re.search(r"\bchar\(", kind):
            raise NoDigest(kind)
    return frozenset(found)

"""Reads of files by Spark, in which each row has its file's path, whatever characters the path holds.

Spark passes over files whose names begin with `_` or `.`, even over those that it is given one by one, and
unpacks by the end of a name. Hadoop fails at a colon. Hadoop's ViewFS gives such a file another name, by
options of the one read that needs it. Nothing is copied.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from urllib.parse import quote

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from acker.core.events import Kind
from acker.spark.trees import union_of
from acker.spouts.files.packing import ENDINGS, way_of_name

_VIEW = "viewfs://acker/"
_ROOT = "root"  # in a view the name of the folder, which no file has: theirs are hexadecimal
_PATTERN = frozenset("*?[]{}\\")
_ODD = _PATTERN | {":"}
_FAILED, _GONE = "FAILED_READ_FILE", "FAILED_READ_FILE.FILE_NOT_EXIST"
_MOST_LINKS = 100  # of one read; Spark makes the view anew for each file, with all of its links


def read_files(
    spark: SparkSession,
    form: str,
    root: str,
    ways: Mapping[str, str],
    options: Mapping[str, str],
    schema: StructType | None = None,
) -> DataFrame:
    """The rows of some files: `_source_partition`, the file's path, and the files' own columns.

    Of Parquet also `_source_offset`, the row's number in its file from 1.

    Args:
        form: "parquet" or "text".
        root: path or URI of a folder.
        ways: path of a file, relative to it -> how it is unpacked where its name does not tell, else empty;
            at least one.
        options: the options of Spark's reader.
        schema: the columns to read; by default those of the first file.
    """
    frames: list[DataFrame] = []
    for names, view in _reads(root, ways):
        reader = spark.read.format(form).options(**options, **view)
        frame = (reader if schema is None else reader.schema(schema)).load(names)
        schema = frame.schema
        row = [(F.col("_metadata.row_index") + 1).alias("_source_offset")] if form == "parquet" else []
        frames.append(frame.select(_path_below(root).alias("_source_partition"), *row, "*"))
    return union_of(frames)


def refused(
    paths: Sequence[str],
    read: Callable[[Sequence[str]], DataFrame],
    counts: Mapping[str, int] | None = None,
) -> dict[str, str]:
    """Path -> the reason, for each file at which Spark's reader fails. The files are found by halves.

    Args:
        read: the function that reads some of the files.
        counts: file -> how many rows it has. A file fails as well where Spark reads another number of rows.
    """
    if not paths:
        return {}
    try:
        found = _rows_read(read(paths))
    except PySparkException as error:
        condition = error.getCondition() or ""
        if not condition.startswith(_FAILED) or condition == _GONE:
            return {}
        why = _why_refused(error)
    else:
        wanted = found if counts is None else sum(counts[path] for path in paths)
        if found == wanted:
            return {}
        why = f"of which Spark's reader returns {found:,} rows of {wanted:,}"
    if len(paths) == 1:
        return {paths[0]: why}
    half = len(paths) // 2
    return refused(paths[:half], read, counts) | refused(paths[half:], read, counts)


def _rows_read(frame: DataFrame) -> int:
    """The number of rows that are read, with all of their columns; `lost` messages do not count."""
    is_read = F.col("_kind").isNull() | (F.col("_kind") != Kind.LOST.value)
    observed = Observation()
    rows = F.count_if(is_read if "_kind" in frame.columns else F.lit(True)).alias("rows")
    frame.observe(observed, rows).write.format("noop").mode("overwrite").save()
    return int(observed.get["rows"])


def _why_refused(error: PySparkException) -> str:
    """Java's innermost cause, or else Spark's kind of failure."""
    causes: list[str] = re.findall(r"^Caused by: (?:\w+\.)*(.+)$", str(error), re.MULTILINE)
    told = causes[-1] if causes else error.getCondition()
    return f"at which Spark's reader fails: {told}"


def _reads(root: str, ways: Mapping[str, str]) -> Iterator[tuple[list[str], dict[str, str]]]:
    """The paths or URIs that each read is given, with the options of this read."""
    shown = [path for path, way in ways.items() if not way and not _is_odd(path)]
    if shown and _PATTERN.isdisjoint(root):
        yield [f"{root}/{path}" for path in shown], {}
    elif shown:
        yield [f"{_VIEW}{_ROOT}/{path}" for path in shown], _view(root, {_ROOT: _uri(root)})
    odd = [path for path, way in ways.items() if way or _is_odd(path)]
    for start in range(0, len(odd), _MOST_LINKS):
        names = {path: _name(path, ways[path]) for path in odd[start : start + _MOST_LINKS]}
        links = {name: _uri(f"{root}/{path}") for path, name in names.items()}
        yield [f"{_VIEW}{name}" for name in names.values()], _view(root, links)


def _is_odd(path: str) -> bool:
    """Whether Spark or Hadoop would pass over a file, fail at it, or take its name for a pattern.

    If a name has characters of a pattern, Hadoop looks through the folder, even where they are escaped. It
    then fails at any name in the folder that has a colon.
    """
    name = path.rpartition("/")[2]
    return name.startswith(("_", ".")) or name.endswith("._COPYING_") or not _ODD.isdisjoint(path)


def _name(path: str, way: str) -> str:
    """The name that a file gets in a view of Hadoop's ViewFS.

    The ending of the name tells Spark how to unpack the file.

    Args:
        path: the path of the file.
        way: how the file is unpacked, a key of `ENDINGS`; empty: as the name of the file tells.
    """
    return path.encode().hex() + ENDINGS.get(way or way_of_name(path), "")


def _view(root: str, links: Mapping[str, str]) -> dict[str, str]:
    """Options of a read from a view with these links."""
    # Hadoop keeps a file system by its name, and this one is another in each read.
    view = {"fs.viewfs.impl.disable.cache": "true"}
    view |= {f"fs.viewfs.mounttable.acker.link./{name}": uri for name, uri in links.items()}
    if "://" not in root:  # that with checksums makes names of names, and cannot where these have a colon
        view |= {"fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem"}
        view |= {"fs.file.impl.disable.cache": "true"}
    return view


def _uri(path: str) -> str:
    if "://" not in path:
        return f"file://{quote(path)}"
    scheme, _, rest = path.partition("://")
    return f"{scheme}://{quote(rest)}"


def _path_below(root: str) -> Column:
    """The path of the file that a row is of, relative to `root`; Spark hands it out as an encoded URI."""
    uri = F.col("_metadata.file_path")
    decoded = F.url_decode(F.regexp_replace(uri, r"\+", "%2B"))
    path = F.substring(F.regexp_replace(decoded, "^file:(//)?", ""), len(root) + 2, 1 << 30)
    below = F.substring(decoded, len(f"{_VIEW}{_ROOT}/") + 1, 1 << 30)
    named = F.substring_index(F.substring(uri, len(_VIEW) + 1, 1 << 30), ".", 1)
    return (
        F.when(F.startswith(uri, F.lit(f"{_VIEW}{_ROOT}/")), below)
        .when(F.startswith(uri, F.lit(_VIEW)), F.decode(F.unhex(named), "UTF-8"))
        .otherwise(path)
    )

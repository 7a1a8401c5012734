"""How Spark is given files by their names, and says which file a row is of, whatever the names hold.

Spark passes over files whose names begin with `_` or `.`, even over those that it is given one by one.
Hadoop's ViewFS gives such a file another name, by options of the one read that needs it. Nothing is copied.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from urllib.parse import quote

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from acker.core.paths import without_pattern
from acker.spouts.base import check_reserved

_VIEW = "viewfs://acker/"
_MOST_LINKS = 100  # of one read; Spark makes the view anew for each file, with all of its links


def read_files(
    spark: SparkSession, form: str, root: str, paths: Sequence[str], options: Mapping[str, str]
) -> DataFrame:
    """The rows of some files: `_source_partition`, the file's path, and the files' own columns.

    Of Parquet also `_source_offset`, the row's number in its file from 1.

    Args:
        form: "parquet" or "text".
        root: path or URI of a folder.
        paths: of the files, relative to it; at least one.
        options: of Spark's reader.

    Raises:
        SourceError: the files have columns with reserved names.
    """
    frames: list[DataFrame] = []
    schema = None
    for names, view in _reads(root, paths):
        reader = spark.read.format(form).options(**options, **view)
        frame = (reader if schema is None else reader.schema(schema)).load(names)
        schema = frame.schema  # of the first read, as all files have that of the first within one
        check_reserved(root, frame.columns)
        row = [(F.col("_metadata.row_index") + 1).alias("_source_offset")] if form == "parquet" else []
        frames.append(frame.select(_path_below(root).alias("_source_partition"), *row, "*"))
    return reduce(DataFrame.unionByName, frames)


def _reads(root: str, paths: Sequence[str]) -> Iterator[tuple[list[str], dict[str, str]]]:
    """The files as each read is given them, with its options."""
    shown = [path for path in paths if not _is_hidden(path)]
    if shown:
        # Brackets and stars in a name would be read as patterns.
        yield [without_pattern(f"{root}/{path}") for path in shown], {}
    hidden = [path for path in paths if _is_hidden(path)]
    for start in range(0, len(hidden), _MOST_LINKS):
        names = {path: path.encode().hex() for path in hidden[start : start + _MOST_LINKS]}
        # Hadoop keeps a file system by its name, and this one is another in each read.
        view = {"fs.viewfs.impl.disable.cache": "true"}
        view |= {f"fs.viewfs.mounttable.acker.link./{name}": _uri(root, path) for path, name in names.items()}
        yield [f"{_VIEW}{name}" for name in names.values()], view


def _is_hidden(path: str) -> bool:
    """Whether Spark would pass over a file; the names of its folders do not matter where it is named."""
    name = path.rpartition("/")[2]
    return name.startswith(("_", ".")) or name.endswith("._COPYING_")


def _uri(root: str, path: str) -> str:
    return f"{root}/{quote(path)}" if "://" in root else f"file://{quote(f'{root}/{path}')}"


def _path_below(root: str) -> Column:
    """The path of the file that a row is of, relative to `root`; Spark hands it out as an encoded URI."""
    uri = F.col("_metadata.file_path")
    decoded = F.url_decode(F.regexp_replace(uri, r"\+", "%2B"))
    path = F.substring(F.regexp_replace(decoded, "^file:(//)?", ""), len(root) + 2, 1 << 30)
    hidden = F.decode(F.unhex(F.substring(uri, len(_VIEW) + 1, 1 << 30)), "UTF-8")
    return F.when(F.startswith(uri, F.lit(_VIEW)), hidden).otherwise(path)

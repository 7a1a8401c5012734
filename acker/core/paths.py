"""Paths and URIs of tables and folders."""

import os
import re
from urllib.parse import urlsplit

from acker.core.errors import StoreError
from acker.core.quoting import printable

_LONGEST_NAME = 255  # bytes, on the usual file systems
# `deltalake` takes the first for the letter that it stands for, fails at the others, and at some only when it
# writes.
_UNUSABLE = re.compile(r"%[0-9A-Fa-f]{2}|[\\\[\]|^\x00-\x1f\x7f]")
_UNREADABLE = re.compile(r"%[0-9A-Fa-f]{2}|[\\\x00-\x1f\x7f]")


def absolute(path: str) -> str:
    """A path or URI in the form that Spark, `deltalake` and Polars all take, with the scheme `s3a` for S3.

    A local path is made absolute, since client and Spark may run in different folders.
    """
    parts = urlsplit(path)
    if parts.scheme == "s3":
        return f"s3a{path.removeprefix('s3')}"
    if parts.scheme == "file":  # of which `#` and `?` are a part, as of any path
        rest = path.partition(":")[2]
        return os.path.abspath(f"/{rest[2:].partition('/')[2]}" if rest.startswith("//") else rest)
    return path if parts.scheme else os.path.abspath(path)


def check_usable(path: str, is_read_only: bool = False) -> None:
    """Refuse a path or URI at which no Delta table can be.

    Args:
        is_read_only: whether this project only reads the table.

    Raises:
        StoreError: with the reason and the remedy.
    """
    why = unusable(path, is_read_only)
    if why is not None:
        raise StoreError(
            f"{printable(path):.200} cannot be the place of a Delta table, since {why}", table=path
        )


def unusable(path: str, is_read_only: bool = False) -> str | None:
    """The reason why no Delta table can be at a path or URI, with the remedy; None where one can."""
    is_object_store = "://" in path and not path.startswith("file:")
    names = [] if is_object_store else path.split("/")
    longest = max((len(os.fsencode(name)) for name in names), default=0)
    if longest > _LONGEST_NAME:
        return f"a name in it has {longest} bytes. Name a folder whose names have at most {_LONGEST_NAME}."
    found = (_UNREADABLE if is_read_only else _UNUSABLE).search(path)
    if found is None:
        return None
    return (
        f"it has {printable(found[0])} in it. Name a folder without backslashes, brackets, |, ^, control "
        "characters, and a % before two digits."
    )


def is_within(path: str, folder: str) -> bool:
    """Whether a path or URI is that of a folder or lies below it, after all links are followed."""
    one, other = (_resolved(absolute(each)).rstrip("/") for each in (path, folder))
    return one == other or one.startswith(f"{other}/")


def _resolved(path: str) -> str:
    return path if "://" in path else os.path.realpath(path)


def without_pattern(path: str) -> str:
    """A path for Spark, in which the characters of its patterns are escaped, such as brackets and stars."""
    return "".join(f"\\{character}" if character in "*?[]{}\\" else character for character in path)

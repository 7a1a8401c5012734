"""Paths and URIs of tables and folders."""

import os
from urllib.parse import urlsplit


def absolute(path: str) -> str:
    """A URI as Spark, `deltalake` and Polars all know it, which is `s3a:` of S3.

    A local path is made absolute, since client and Spark may run in different folders.
    """
    parts = urlsplit(path)
    if parts.scheme == "s3":
        return f"s3a{path.removeprefix('s3')}"
    if parts.scheme == "file":
        return os.path.abspath(parts.path)
    return path if parts.scheme else os.path.abspath(path)


def is_within(path: str, folder: str) -> bool:
    """Whether a path or URI is that of a folder or of something below it, over whatever links."""
    one, other = (_resolved(absolute(each)).rstrip("/") for each in (path, folder))
    return one == other or one.startswith(f"{other}/")


def _resolved(path: str) -> str:
    return path if "://" in path else os.path.realpath(path)


def without_pattern(path: str) -> str:
    """A path as Spark is to be given it, which takes brackets and stars for a pattern."""
    return "".join(f"\\{character}" if character in "*?[]{}\\" else character for character in path)

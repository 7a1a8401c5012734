"""Paths and URIs of tables and folders."""

import os
from urllib.parse import urlsplit


def absolute(path: str) -> str:
    """A URI as it is; a local path made absolute, since client and Spark may run in different folders."""
    parts = urlsplit(path)
    if parts.scheme == "file":
        return os.path.abspath(parts.path)
    return path if parts.scheme else os.path.abspath(path)

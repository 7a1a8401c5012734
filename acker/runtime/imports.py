"""The folder from which topologies are imported."""

import sys


def search_current_folder() -> None:
    """Let topologies be imported from the current folder, as `python -m` does."""
    if "" not in sys.path:
        sys.path.insert(0, "")

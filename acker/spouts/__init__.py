"""Spouts: sources that can be read onwards and read back by position. One source a file."""

from acker.spouts.base import (
    Backlog,
    Changed,
    Committing,
    HasBacklog,
    History,
    NamesGone,
    Range,
    ReadsLocally,
    Spout,
    TellsColumns,
    TellsGone,
    check_json,
)
from acker.spouts.delta.spout import DeltaSpout
from acker.spouts.files.spout import FileSpout

__all__ = [
    "Backlog",
    "Changed",
    "Committing",
    "DeltaSpout",
    "FileSpout",
    "HasBacklog",
    "History",
    "NamesGone",
    "Range",
    "ReadsLocally",
    "Spout",
    "TellsColumns",
    "TellsGone",
    "check_json",
]

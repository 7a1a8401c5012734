"""Spouts: sources that give new messages, and earlier ones again by position. One source a package."""

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

"""Spouts: sources that can be read onwards and read back by position. One source a file."""

from acker.spouts.base import History, Range, Spout, check_json
from acker.spouts.delta import DeltaSpout
from acker.spouts.files import FileSpout

__all__ = ["DeltaSpout", "FileSpout", "History", "Range", "Spout", "check_json"]

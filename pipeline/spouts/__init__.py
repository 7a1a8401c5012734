"""Spouts: sources that can be read onwards and read back by position. One source a file."""

from pipeline.spouts.delta import DeltaSpout
from pipeline.spouts.files import FileSpout
from pipeline.spouts.spout import History, Range, Spout

__all__ = ["DeltaSpout", "FileSpout", "History", "Range", "Spout"]

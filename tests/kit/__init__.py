"""What tests of several tiers share."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]  # of the tree that is tested

"""A project whose source, store and target are wherever `LAKE` says: words, counted by a topology of bolts.

It is copied into a folder of each test, where the commands are given.
"""

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import write_deltalake

from acker.core.store.schemas import LEDGER
from acker.core.store.store import Store
from acker.core.store.tables import open_table, query

LINES = 2_000
BATCH = 700  # messages of a batch
GONE = 40  # every so many lines one is given up
MOST_COMMANDS = 50  # until all is done
TRY_AGAIN_SECONDS = 5
DOWN = 7  # and so many of the first batch fail as long as a file is there

_HELPER = """
def clean(word):
    return word.strip(".,").lower()
"""
_NUMBERS = f"BATCH, DOWN, GONE = {BATCH}, {DOWN}, {GONE}\n"
_TOPOLOGY = """
import os
from pathlib import Path

from pyspark.sql import functions as F

from acker import Count, DeltaSpout, ExponentialBackoff, PermanentFailure, Topology, fail_when
from words.helper import clean

LAKE = os.environ["LAKE"]
topology = Topology("words", retry=ExponentialBackoff(initial_seconds=0, limit=1), batch_rows=BATCH)
lines = topology.spout("lines", DeltaSpout(f"{LAKE}/lines", key="id"))


@topology.bolt(lines)
def split(tuples):
    down = F.lit(Path("outage").exists()) & (F.col("id") % DOWN == 0) & (F.col("id") <= BATCH)
    word = F.explode(F.split("text", " ")).alias("word")
    return tuples.select("anchor", "id", word, fail_when(down, "the service is down").alias("_error"))


@topology.basic_bolt(split, schema="word string")
def cleaned(tup):
    if tup.id % GONE == 0:
        raise PermanentFailure(f"no {tup.id}")
    yield (clean(tup.word),)


topology.publish(cleaned, to=f"{LAKE}/counts", by="word", aggregates={"count": Count()})
"""


def make_project(folder: Path, lake: str) -> dict[str, str]:
    """A project in a folder, with its lines in the lake; what its commands need in their environment.

    `deltalake` finds the lake by this process's environment.
    """
    package = folder / "words"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "helper.py").write_text(_HELPER)
    (package / "flow.py").write_text(_NUMBERS + _TOPOLOGY)
    (folder / "pyproject.toml").write_text('[tool.acker]\ntopologies = ["words.flow:topology"]\n')
    write_deltalake(f"{lake}/lines", pa.table({"id": [*ids()], "text": [text_of(id) for id in ids()]}))
    return {"LAKE": lake, "PIPELINE_STORE": f"{lake}/store", "PIPELINE_HOME": str(folder / "home")}


def ids() -> range:
    return range(1, LINES + 1)


def text_of(id: int) -> str:
    return f"Line {id % 100}, of many words. The end"


def counted() -> dict[str, int]:
    """What the topology comes to, by a plain count."""
    counts: dict[str, int] = {}
    for id in ids():
        if id % GONE:
            for word in text_of(id).split(" "):
                cleaned = word.strip(".,").lower()
                counts[cleaned] = counts.get(cleaned, 0) + 1
    return counts


def environment(**more: str) -> dict[str, str]:
    """That of a command, without a developer's settings."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PIPELINE_", "SPARK_", "AWS_"))
    }
    return kept | more


class Project:
    """A project in a folder, and commands in it."""

    def __init__(self, folder: Path, lake: str, **more: str) -> None:
        self.folder, self.lake = folder, lake
        self.said: list[str] = []  # by commands
        self.environ = environment(**more, **make_project(folder, lake))

    def __call__(self, *command: str) -> str:
        done = self.call(*command)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def call(self, *command: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [sys.executable, "-m", "acker", *command],
            cwd=self.folder,
            env=self.environ,
            capture_output=True,
            text=True,
        )

    def run_until_done(self) -> int:
        """To the end, through an outage of what a bolt asks; how many commands failed on the way.

        The outage is over with the first command, however that ends.
        """
        failed = 0
        (self.folder / "outage").touch()
        try:
            for command in (("run", "words"), ("run", "words", "--drain")):
                while self._fails(*command):
                    failed += 1
                    time.sleep(TRY_AGAIN_SECONDS)
        finally:
            self("server", "stop")
        return failed

    def _fails(self, *command: str) -> bool:
        done = self.call(*command)
        (self.folder / "outage").unlink(missing_ok=True)
        self.said.append(done.stdout + done.stderr)
        assert len(self.said) < MOST_COMMANDS, "\n".join(self.said)
        return done.returncode != 0

    @property
    def store(self) -> Store:
        return Store(self.environ["PIPELINE_STORE"].replace("s3:", "s3a:"), "words")

    def rows(self) -> tuple[Any, ...]:
        """The published counts, and what became of each message."""
        counts = query("SELECT word, count FROM t", t=open_table(f"{self.lake}/counts"))
        what = "source_offset, attempt, state, reason, component"
        ledger = query(
            f"SELECT {what} FROM t WHERE root_id IS NOT NULL AND live_in IS NULL",
            t=self.store.require(LEDGER),
        )
        return (
            {row["word"]: row["count"] for row in counts},
            sorted(tuple(row.values()) for row in ledger),
        )


def ends(rows: tuple[Any, ...]) -> tuple[Any, ...]:
    """Of what `Project.rows` gives, the counts, and how each message ended, on whichever attempt.

    Of a run that was killed: how many messages met the outage hangs on when that was.
    """
    counts, ledger = rows
    last = ("acked", "dead_letter")
    return counts, [(offset, state) for offset, _, state, _, _ in ledger if state in last]

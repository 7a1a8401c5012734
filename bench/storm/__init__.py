"""Storm beside: sentences that are tracked through two bolts, in a topology of ours and in a LocalCluster."""

import contextlib
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

from pyspark.sql import SparkSession

from acker.core.errors import ServerError
from acker.runtime.server.jars import fetched, kept_in
from acker.runtime.server.java import java_command
from bench.pairs import Measure, measure
from bench.tax import SENTENCES, make_sentences, run_tracked

AT_MOST = 1.25  # so at least 0.8 of Storm's messages a second
_HERE = Path(__file__).parent
_PACKAGES = ("java.lang", "java.util", "java.nio", "sun.nio.ch")
_DONE = "acked in "


def measure_storm(spark: SparkSession, folder: Path, rounds: int, sentences: int = SENTENCES) -> Measure:
    """Seconds for 1 M sentences of 10 words ÷ Storm's until it has acked as many.

    Storm runs at its best: 500 pending sentences, one acker, two executors a bolt. It makes up its sentences
    and keeps no word; the tracked side reads and writes Delta tables.
    """
    source = make_sentences(spark, folder, sentences)

    def tracked(number: int) -> None:
        run_tracked(spark, source, folder / f"tracked{number}")

    with running_storm(folder) as ack:

        def storm(number: int) -> None:
            ack(sentences)

        # Storm is slow for a while after it had nothing to do.
        return measure("storm", AT_MOST, tracked, storm, rounds, warm_up=storm)


@contextlib.contextmanager
def running_storm(folder: Path) -> Iterator[Callable[[int], None]]:
    """A LocalCluster of its own; what is given waits until that many further sentences are acked."""
    jars = kept_in("storm", _HERE / "ivy.xml")
    fetched(_HERE / "ivy.xml", jars)
    classes, state = folder / "classes", folder / "zookeeper"
    classes.mkdir(parents=True)
    state.mkdir()
    path = f"{classes}:{jars}/*"
    compiler = Path(java_command()).with_name("javac")
    try:
        subprocess.run([compiler, "-nowarn", "-cp", path, "-d", classes, _HERE / "Words.java"], check=True)
    except OSError as error:
        raise ServerError(f"Storm's side is compiled, and there is no {compiler}: install a JDK.") from error
    opens = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _PACKAGES]
    with (folder / "storm.log").open("w") as log:
        storm = subprocess.Popen(
            [java_command(), *opens, "-cp", path, "Words", state],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )

    def ack(sentences: int) -> None:
        assert storm.stdin is not None and storm.stdout is not None
        storm.stdin.write(f"{sentences}\n")
        storm.stdin.flush()
        if not any(line.startswith(_DONE) for line in storm.stdout):
            raise ServerError(f"Storm has ended; see {log.name}.")

    with storm:
        try:
            yield ack
        finally:
            storm.kill()

"""The tax of tracking: a tracked pipeline ÷ the same in plain Spark, every stage written to Delta.

1 M sentences of 10 words are read, split into words, and the words upper-cased. The tracked side runs the
spout, both bolts and the fold, with everything that they log.
"""

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from acker.batches.run import Run
from acker.core.store.store import Store
from acker.operations.cycle import run_bolt, run_spout
from acker.operations.fold import fold
from acker.spark.delta import read
from acker.spouts import DeltaSpout
from acker.topology.topology import Topology
from bench.pairs import Measure, measure

SENTENCES = 1_000_000
WORDS = 10  # of a sentence
WORDS_IN_ALL = 5_000_000  # where sentences are shorter or longer
VOCABULARY = 5_000
AT_MOST = 1.5
AT_MOST_OF_ONE = 2.5  # where a sentence is one word, each word has its own root and all that belongs to it


def measure_width(spark: SparkSession, folder: Path, rounds: int, words: int) -> Measure:
    """The tax with 5 M words in sentences of so many."""
    return measure_tax(spark, folder, rounds, WORDS_IN_ALL // words, words)


def measure_tax(
    spark: SparkSession, folder: Path, rounds: int, sentences: int = SENTENCES, words: int = WORDS
) -> Measure:
    """Time both pipelines in turn. Raises AssertionError where their results differ."""
    source = make_sentences(spark, folder, sentences, words)
    name = "tax" if words == WORDS else f"tax of {words:,}"

    def plain(number: int) -> None:
        run_plain(spark, source, folder / f"plain{number}")

    def tracked(number: int) -> None:
        run_tracked(spark, source, folder / f"tracked{number}")

    at_most = AT_MOST_OF_ONE if words == 1 else AT_MOST
    result = measure(name, at_most, tracked, plain, rounds)
    for number in range(rounds + 1):
        want = _fingerprint(spark.read.format("delta").load(str(folder / f"plain{number}" / "upper")))
        store = Store(str(folder / f"tracked{number}"), "tax")
        assert _fingerprint(read(spark, store.path("streams/upper"))) == want
        assert read(spark, store.path("ledger")).where("state = 'acked'").count() == sentences
    return result


def make_sentences(spark: SparkSession, folder: Path, sentences: int, words: int = WORDS) -> str:
    """Make a Delta table of sentences, and return its path."""
    source = str(folder / "sentences")
    word = f"concat('w', pmod(xxhash64(id, i), {VOCABULARY}))"
    (
        spark.range(0, sentences, 1, 4)
        .selectExpr(f"array_join(transform(sequence(1, {words}), i -> {word}), ' ') AS sentence")
        .write.format("delta")
        .option("delta.enableRowTracking", "true")
        .save(source)
    )
    return source


def run_plain(spark: SparkSession, source: str, folder: Path) -> None:
    """Three jobs over Delta tables, as one writes them without tracking."""

    def stage(name: str, frame: DataFrame) -> DataFrame:
        frame.write.format("delta").mode("append").save(str(folder / name))
        return spark.read.format("delta").load(str(folder / name))

    sentences = stage("sentences", spark.read.format("delta").load(source))
    words = stage("words", sentences.select(F.explode(F.split("sentence", " ")).alias("word")))
    stage("upper", words.select(F.upper("word").alias("word")))


def run_tracked(spark: SparkSession, source: str, folder: Path) -> None:
    """The same as a topology: one batch of each component, then a fold."""
    topology = Topology("tax", batch_rows=2**31 - 1)
    sentences = topology.spout("sentences", DeltaSpout(source))

    @topology.bolt(sentences)
    def words(tuples: DataFrame) -> DataFrame:
        return tuples.select("anchor", F.explode(F.split("sentence", " ")).alias("word"))

    @topology.bolt(words)
    def upper(tuples: DataFrame) -> DataFrame:
        return tuples.select("anchor", F.upper("word").alias("word"))

    store = Store(str(folder), topology.name)
    store.create()
    run = Run(topology, store, lambda: spark)
    run_spout(run, sentences)
    run_bolt(run, words)
    run_bolt(run, upper)
    fold(run)


def _fingerprint(frame: DataFrame) -> tuple[int, int]:
    row = frame.agg(F.count("*").alias("rows"), F.sum(F.hash("word").cast("bigint")).alias("sum")).first()
    assert row is not None
    return row["rows"], row["sum"]

"""Bolts at work: one row's fault fails its message, a bolt's own fault stops its batch and fails nobody."""

from collections import Counter
from datetime import UTC, datetime
from threading import Lock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import Row
from pyspark.sql import functions as F

from acker.components.anchors import fail_when
from acker.components.bad_rows import bad_roots
from acker.components.base import Work
from acker.components.basic_bolt import BasicBolt
from acker.components.collector import RichBolt
from acker.components.dataframe_bolt import DataFrameBolt
from acker.components.raising import error_of
from acker.components.workers import TupleRunner
from acker.core.errors import BoltError
from acker.core.reasons import Redaction
from acker.core.snapshot.inputs import Spans
from acker.core.snapshot.journal import Journal
from acker.core.snapshot.planned import Batch
from acker.core.store.store import Store
from acker.core.store.tables import query
from acker.operations.cycle import run_bolt, run_spout
from acker.spouts import DeltaSpout
from acker.topology.topology import Topology

COUNT = 200


@pytest.fixture(scope="module")
def worked(shared_place):
    """200 texts, the 77th of them no number, and a few numbers, taken in by one bolt of every kind."""
    texts = [str(number) for number in range(1, COUNT + 1)]
    texts[76] = "seven"
    many = shared_place.add("texts", id=list(range(1, COUNT + 1)), text=texts)
    topology = Topology("worked")
    lines = topology.spout("lines", DeltaSpout(many, key="id"))
    numbers = topology.spout("numbers", DeltaSpout(shared_place.add("few", id=[1, 2, 3, 4, 5, 6]), key="id"))
    calls = Counter()

    @topology.bolt(lines)
    def cast(tuples):
        calls["cast"] += 1
        return tuples.select("anchor", F.col("text").cast("int").alias("number"))

    @F.udf("string")
    def shout(number):
        if number in (2, 5):
            raise ValueError(f"too quiet: {number}")
        return f"{number}!"

    @topology.bolt(numbers)
    def shouted(tuples):
        return tuples.select("anchor", shout("id").alias("shout"))

    @topology.basic_bolt(numbers, schema="id bigint, word string")
    def basic(tup):
        if tup.id == 1:
            raise KeyError("no such word")
        yield tup.id, "tuple"
        if tup.id == 2:
            yield {"id": "two", "word": "wrong type"}

    @topology.bolt(numbers)
    def failing(tuples):
        return tuples.select("anchor", fail_when(F.col("id") <= 2, F.concat(F.lit("low: "), "id")), "id")

    run = shared_place.run(topology)
    for spout in topology.spouts:
        run_spout(run, spout)
    for bolt in topology.bolts:
        run_bolt(run, bolt)
    return run, calls


def failures(run, bolt):
    """(source_offset, reason) of the messages that a bolt failed, from the events."""
    rows = query(
        f"""SELECT init.source_offset, fail.reason FROM events fail JOIN events init
        ON fail.root_id = init.root_id AND init.kind = 'init'
        WHERE fail.component = '{bolt}' AND fail.kind = 'fail' ORDER BY 1""",
        events=run.store.require("events"),
    )
    return [tuple(row.values()) for row in rows]


def counted(run, bolt, column):
    """How often each value was emitted."""
    stream = run.store.require(f"streams/{bolt}")
    return Counter(row[column] for row in query(f"SELECT {column} FROM s WHERE _kind IS NULL", s=stream))


def test_a_cast_that_fails_on_one_row_in_200_fails_its_message(worked):
    run, _ = worked
    ((offset, reason),) = failures(run, "cast")
    assert (offset, "'seven'" in reason, "CAST_INVALID_INPUT" in reason) == (77, True, True)
    assert counted(run, "cast", "number") == Counter(n for n in range(1, COUNT + 1) if n != 77)


def test_the_runs_that_find_a_row_grow_with_the_logarithm(worked):
    halvings = 8  # of 200
    assert worked[1]["cast"] <= 2 * halvings + 3


def test_a_python_function_that_raises_on_two_rows_fails_their_messages(worked):
    assert failures(worked[0], "shouted") == [
        (2, "ValueError: too quiet: 2"),
        (5, "ValueError: too quiet: 5"),
    ]


def test_strings_that_python_made_are_read_without_spark(worked):
    assert counted(worked[0], "shouted", "shout") == {"1!": 1, "3!": 1, "4!": 1, "6!": 1}


def test_a_basic_bolt_fails_just_the_tuples_that_it_cannot_take(worked):
    run, _ = worked
    (first, second) = failures(run, "basic")
    assert (first, second[0]) == ((1, "KeyError: 'no such word'"), 2)
    assert second[1] == "ValueError: column id: 'two' is no bigint"
    assert counted(run, "basic", "id") == {3: 1, 4: 1, 5: 1, 6: 1}


def test_a_row_that_is_marked_is_not_emitted_and_fails_its_message(worked):
    run, _ = worked
    assert failures(run, "failing") == [(1, "low: 1"), (2, "low: 2")]
    assert counted(run, "failing", "id") == {3: 1, 4: 1, 5: 1, 6: 1}


def test_every_bolt_answers_for_every_message_once(worked):
    run, _ = worked
    found = query(
        "SELECT component, kind, count(*) AS n, sum(consumed) AS tuples FROM events "
        "WHERE kind NOT IN ('init', 'batch') GROUP BY component, kind",
        events=run.store.require("events"),
    )
    assert {(row["component"], row["kind"]): (row["n"], row["tuples"]) for row in found} == {
        ("cast", "ack"): (199, 199),
        ("cast", "fail"): (1, 1),
        ("shouted", "ack"): (4, 4),
        ("shouted", "fail"): (2, 2),
        ("basic", "ack"): (4, 4),
        ("basic", "fail"): (2, 2),
        ("failing", "ack"): (4, 4),
        ("failing", "fail"): (2, 2),
    }


def emitted_by(function):
    """What a basic bolt of two columns makes of tuples 1 and 2."""
    tuples = pa.record_batch({"_root_id": [10, 20], "id": [1, 2]})
    runner = TupleRunner(function, pa.schema({"id": pa.int64(), "word": pa.string()}))
    return [tuple(row.values()) for batch in runner(iter([tuples])) for row in batch.to_pylist()]


def test_a_basic_bolt_emits_tuples_dicts_and_rows():
    found = emitted_by(lambda tup: [(tup.id, "a"), [tup.id, "b"], {"word": "c"}, Row(word="d", id=0)])
    assert found == [
        (root, None, None, *row)
        for root, number in ((10, 1), (20, 2))
        for row in ((number, "a"), (number, "b"), (None, "c"), (0, "d"))
    ]


@pytest.mark.parametrize("nothing", [lambda tup: None, lambda tup: (), lambda tup: iter(())])
def test_a_basic_bolt_may_emit_nothing(nothing):
    assert emitted_by(nothing) == []


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"id": 2, "colour": "red"}, "ValueError: emitted columns that its schema does not have: colour"),
        ((2,), "ValueError: emitted (2,); a row is a dict or a tuple of id, word"),
        ("ab", "ValueError: emitted 'ab'; a row is a dict or a tuple of id, word"),
    ],
)
def test_a_basic_bolts_row_that_does_not_fit_fails_its_tuple_alone(wrong, reason):
    found = emitted_by(lambda tup: [(tup.id, "fine"), {1: {}, 2: wrong}[tup.id]])
    assert found == [
        (10, None, None, 1, "fine"),
        (10, None, None, None, None),
        (20, "fail", reason, None, None),
    ]


@pytest.fixture
def work(spark, store_uri):
    """The first batch of a bolt `broken`, in an empty store."""
    batch = Batch("broken", 1, "next", Spans({}), (), datetime(2026, 1, 1, tzinfo=UTC), "run")
    return Work(
        spark=spark,
        topology="tried",
        components={},
        journal=Journal(Store(store_uri, "tried")),
        batch=batch,
        check=lambda rows: rows,
        is_published=False,
        on_search=lambda: None,
        takes_back=False,
        redaction=Redaction(),
    )


@pytest.mark.parametrize(
    ("function", "why"),
    [
        (lambda tuples: tuples.drop("anchor"), "must keep the column `anchor` as it came"),
        (lambda tuples: tuples.withColumn("anchor", F.lit(1)), "must keep the column `anchor` as it came"),
        (lambda tuples: tuples.withColumn("_batch", F.lit(1)), "emits _batch: `anchor` and names that begin"),
        (lambda tuples: tuples.select("*", F.lit(1).alias("id")), "emits id more than once"),
        (lambda tuples: tuples.select("*", F.lit(1).alias("ID")), "emits ID, id more than once"),
        (lambda tuples: tuples.toArrow(), "must return a DataFrame, not Table"),
        (lambda tuples: None, "must return a DataFrame, not NoneType"),
    ],
)
def test_a_bolt_that_breaks_its_contract_is_refused_by_name(spark, work, function, why):
    inputs = {"numbers": spark.createDataFrame([(1, 1)], "_root_id bigint, id bigint")}
    with pytest.raises(BoltError, match=f"Bolt broken {why}"):
        DataFrameBolt("broken", ("numbers",), function=function).made_of(work, inputs)


def test_a_column_whose_name_no_table_can_keep_is_refused(spark, work):
    inputs = {"numbers": spark.createDataFrame([(1, 1)], "_root_id bigint, id bigint")}
    bolt = DataFrameBolt(
        "broken", ("numbers",), function=lambda n: n.select("anchor", F.col("id").alias("a\0b"))
    )
    with pytest.raises(BoltError, match=r"emits 'a\\x00b', whose name has the character NUL; rename it"):
        bolt.made_of(work, inputs)


@pytest.mark.parametrize("schema", ["_root_id bigint", "anchor string"])
def test_a_basic_bolt_with_a_reserved_column_is_refused(spark, work, schema):
    inputs = {"numbers": spark.createDataFrame([(1, 1)], "_root_id bigint, id bigint")}
    bolt = BasicBolt("broken", ("numbers",), function=lambda tup: None, schema=schema)
    with pytest.raises(BoltError, match="names that begin with an underscore are reserved"):
        bolt.made_of(work, inputs)


@pytest.fixture(scope="module")
def faulty(shared_place):
    """Three numbers and three bolts that are at fault themselves, whatever the row."""
    topology = Topology("faulty")
    source = shared_place.add("three", id=[1, 2, 3])
    numbers = topology.spout("numbers", DeltaSpout(source, key="id"))

    @topology.bolt(numbers)
    def forging(tuples):
        root = F.col("anchor._root_id") + 1
        return tuples.select(F.col("anchor").withField("_root_id", root).alias("anchor"), "id")

    @topology.bolt(numbers)
    def misspelt(tuples):
        return tuples.select("anchor", "idd")

    @topology.bolt(numbers)
    def broken(tuples):
        return tuples.where(nothing_of_this_name)  # noqa: F821

    lock = Lock()

    @topology.basic_bolt(numbers, schema="id bigint")
    def locked(tup):
        with lock:
            yield (tup.id,)

    @topology.bolt(numbers)
    def locked_udf(tuples):
        return tuples.select("anchor", F.udf(lambda number: lock.locked())("id"))

    @topology.rich_bolt(numbers, schema="id bigint")
    class LockedRich(RichBolt):
        def execute(self, tup, collector):
            with lock:
                collector.emit(tup.id)

    run = shared_place.run(topology)
    run_spout(run, numbers)
    return run


@pytest.mark.parametrize(
    ("bolt", "error", "why"),
    [
        ("forging", BoltError, "Bolt forging emitted a row whose anchor is none of its inputs"),
        (
            "misspelt",
            BoltError,
            r"^Bolt misspelt: A column.* `idd` cannot be resolved\. Did .*`id`.*and run again\.$",
        ),
        *(
            (bolt, BoltError, rf"^{bolt} cannot be sent .*cannot pickle '_thread.lock' object\. Make what ")
            for bolt in ("locked", "locked_udf", "locked_rich")
        ),
        ("broken", BoltError, r"^Bolt broken raises NameError .*test_bolts\.py, line \d+\)\. Mend it"),
    ],
)
def test_a_bolt_at_fault_stops_its_batch_and_fails_no_message(faulty, bolt, error, why):
    with pytest.raises(error, match=why):
        run_bolt(faulty, faulty.topology.components[bolt])
    assert (faulty.snapshot().planned(bolt), faulty.snapshot().logged(bolt)) == (1, 0)
    assert faulty.store.open(f"streams/{bolt}") is None


def texts(spark, bad, count=200, empty=()):
    """Messages with a text each: a number, or where they are bad none."""
    rows = [(root, None if root in empty else "bad" if root in bad else str(root)) for root in range(count)]
    return {"texts": spark.createDataFrame(rows, "_root_id bigint, text string")}


def found(inputs, column):
    """The bad messages of a bolt that selects a column."""

    def made(frames):
        return frames["texts"].select("_root_id", column.alias("made"))

    return bad_roots("tried", inputs, made, error_of(made(inputs)))


@pytest.mark.extended
def test_any_number_of_bad_rows_is_found_and_a_null_alone_is_none(spark):
    bad = set(range(5, 200, 4))
    why = found(texts(spark, bad, empty=range(0, 200, 10)), F.col("text").cast("int"))
    assert why.keys() == bad
    assert all(reason.startswith("[CAST_INVALID_INPUT] The value 'bad'") for reason in why.values())


@pytest.mark.extended
def test_rows_that_raise_in_any_mode_are_found_as_well(spark):
    bad = {0, 63, 64, 199}
    column = F.when(F.col("text") == "bad", F.raise_error(F.lit("no number"))).otherwise(F.col("text"))
    why = found(texts(spark, bad), column)
    assert why.keys() == bad
    assert all("no number" in reason for reason in why.values())


@pytest.mark.extended
def test_bad_rows_that_are_dropped_where_nothing_raises_are_found(spark):
    inputs = texts(spark, {7, 70})

    def positive(frames):
        return frames["texts"].where(F.col("text").cast("int") >= 0).select("_root_id", "text")

    assert bad_roots("tried", inputs, positive, error_of(positive(inputs))).keys() == {7, 70}
    assert spark.conf.get("spark.sql.ansi.enabled") == "true"


@pytest.mark.extended
def test_bad_rows_are_found_among_values_that_this_process_cannot_hand_back(spark, tmp_path):
    twice = pa.array([[("a", 1), ("a", 2)]] * 9, pa.map_(pa.string(), pa.int64()))
    texts = ["bad" if number == 4 else "1" for number in range(9)]
    pq.write_table(pa.table({"_root_id": range(9), "text": texts, "pairs": twice}), tmp_path / "a.parquet")
    inputs = {"texts": spark.read.parquet(str(tmp_path))}
    assert found(inputs, F.col("text").cast("int")).keys() == {4}


@pytest.mark.extended
def test_a_bolt_that_fails_on_most_messages_is_at_fault_itself(spark):
    def divided(frames):
        return frames["numbers"].select(F.expr("_root_id / (_root_id - _root_id)").alias("ratio"))

    inputs = {"numbers": spark.range(35).withColumnRenamed("id", "_root_id")}
    error = error_of(divided(inputs))
    with pytest.raises(BoltError, match=r"Bolt tried fails on most messages of a batch.*DIVIDE_BY_ZERO"):
        bad_roots("tried", inputs, divided, error)

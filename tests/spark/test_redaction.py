"""What a topology redacts is in no reason that is kept, told or logged, whoever has failed the row."""

import json
from pathlib import Path

import polars as pl
import pytest
from pyspark.sql import functions as F

from acker import DeltaSpout, ExponentialBackoff, FileSpout, RichBolt, Topology, fail_when
from acker.airflow import tasks
from acker.core.errors import BoltError
from acker.operations.cycle import drain
from acker.operations.fold import fold
from acker.reports.audit import audit_report

CARD = "4111111111111111"
REDACT = (r"\b\d{16}\b", r"name=\w+")


class Strict(RichBolt):
    """Fails cards with what they are: by an error, by what it emits, by a reason that is too long."""

    def execute(self, tup, collector):
        if tup.id == 5:
            raise ValueError(f"no card {tup.card}, name=ada")
        if tup.id == 6:
            collector.emit(tup, ("x" * 180, tup.card))
        if tup.id == 7:
            collector.fail(tup, f"{'y' * 990} {tup.card}")
        collector.ack(tup)


def checking(place, **settings):
    """Cards that fail in every kind of component."""
    topology = Topology("cards", retry=ExponentialBackoff(initial_seconds=1, limit=0), **settings)
    ids = list(range(1, 9))
    cards = topology.spout("cards", DeltaSpout(place.add("cards", id=ids, card=[CARD] * 8), key="id"))
    folder = Path(place.path("lines"))
    folder.mkdir()
    broken = ["no card " + CARD, "z" * 190 + " " + CARD, json.dumps({"card": "1"})]
    (folder / "a.json").write_text("\n".join(broken))
    topology.spout("lines", FileSpout(str(folder), format="json", schema="card bigint"))

    @topology.bolt(cards)
    def checked(tuples):
        why = F.concat(F.lit("bad: "), "card")
        return tuples.select("anchor", fail_when(F.col("id") == 1, why).alias("_error"), "id")

    @topology.bolt(cards)
    def cast(tuples):
        text = F.when(F.col("id") == 2, F.concat("card", F.lit(" is none"))).otherwise("1")
        return tuples.select("anchor", text.cast("int").alias("number"))

    @topology.basic_bolt(cards, schema="n int")
    def known(tup):
        if tup.id == 3:
            raise LookupError(f"unknown: {tup.card}")
        if tup.id == 4:
            yield {"n": f"{tup.card} twice"}

    topology.rich_bolt(cards, schema="n int", name="strict")(Strict)
    return place.run(topology)


def texts_of(run):
    """Every text in every file of the store, but for the columns that are the user's own."""
    found = {}
    for file in Path(run.store.path("")).rglob("*.parquet"):
        frame = pl.read_parquet(file, hive_partitioning=False)
        is_stream = "streams" in file.parts
        own = [n for n in frame.columns if frame[n].dtype == pl.String and (n[0] == "_" or not is_stream)]
        for name in own:
            found.setdefault(name, set()).update(frame[name].drop_nulls())
    return found


def reasons(texts):
    """Reasons, of which Spark's own words after the value and what is long are left out."""
    short = {text.partition(' of the type "STRING"')[0] for text in texts}
    return sorted(text if len(text) < 100 else f"{text[:40]}…{text[-30:]}" for text in short)


def test_a_secret_is_in_no_reason_whatever_kind_of_component_has_failed_the_row(place, caplog):
    run = checking(place, redact=REDACT)
    drain(run)
    texts = texts_of(run)
    assert [text for each in texts.values() for text in each if "4111" in text] == []
    assert "4111" not in caplog.text
    assert reasons(texts["_error"]) == [
        "LookupError: unknown: ***",
        "ValueError: column n: '*** twice' is no int",
        f"ValueError: emitted ('{'x' * 18}… row is a dict or a tuple of n",
        "ValueError: no card ***, ***",
        "[CAST_INVALID_INPUT] The value '*** is none'",
        "bad: ***",
        'not valid JSON for the schema: card: "1" is no bigint: {"card": "1"}',
        "not valid JSON for the schema: no card ***",
        f"not valid JSON for the schema: {'z' * 9}…{'z' * 26} ***",
        f"{'y' * 40}…{'y' * 26} ***",
    ]
    assert texts["reason"] == texts["_error"]
    assert audit_report(run.topology, run.store).passed


def test_a_secret_is_in_no_reason_of_a_hold_or_of_a_batch_that_is_given_up(place, monkeypatch, caplog):
    topology = Topology("held", retry=ExponentialBackoff(limit=0), redact=REDACT[0])
    cards = topology.spout(
        "cards", DeltaSpout(place.add("cards", id=list(range(40)), card=[f"no {CARD}"] * 40), key="id")
    )
    topology.bolt(cards, name="cast")(lambda tuples: tuples.select("anchor", F.col("card").cast("int")))
    run = place.run(topology)
    tasks.read_source(run, "cards")
    monkeypatch.setenv("PIPELINE_GIVE_UP_AFTER_TRIES", "1")
    with pytest.raises(BoltError, match="fails on most"):
        tasks.run_bolt(run, "cast")
    fold(run)
    texts = texts_of(run)["reason"]
    assert [text for text in texts if "4111" in text] == []
    assert {text[:28] for text in texts} == {"Bolt cast fails on most mess", "given up after 1 tries: Bolt"}
    assert all("'no ***'" in text for text in texts)
    assert "4111" not in caplog.text


def test_without_a_redaction_a_reason_quotes_the_first_200_characters_of_a_line(place):
    folder = Path(place.path("lines"))
    folder.mkdir()
    (folder / "a.json").write_text("z" * 190 + CARD)
    topology = Topology("plain", retry=ExponentialBackoff(limit=0))
    topology.spout("lines", FileSpout(str(folder), format="json", schema="card bigint"))
    run = place.run(topology)
    drain(run)
    assert texts_of(run)["_error"] == {f"not valid JSON for the schema: {'z' * 190}{CARD[:10]}"}

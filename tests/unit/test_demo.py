"""The demonstration's choice of its source, and what it feeds."""

import os
import runpy
import subprocess
import sys

from acker.spouts import FileSpout
from acker.spouts.kafka.spout import KafkaSpout
from acker.targets.kafka import KafkaTarget
from pipeline.demo import feed as feeding
from pipeline.demo.feed import Files, feed, plain_counts, split
from tests.kit import ROOT


def word_count(monkeypatch, servers):
    monkeypatch.setenv("PIPELINE_KAFKA_SERVERS", servers)
    return runpy.run_path(str(ROOT / "pipeline" / "wordcount.py"))["topology"]


def test_the_word_count_reads_kafka_where_servers_are_named_and_is_another_topology_then(monkeypatch):
    of_files, of_kafka = word_count(monkeypatch, ""), word_count(monkeypatch, "127.0.0.1:9092")
    assert (of_files.name, type(of_files.spouts[0].source)) == ("wordcount", FileSpout)
    spout = KafkaSpout("127.0.0.1:9092", "lines", group="wordcount")
    assert (of_kafka.name, of_kafka.spouts[0].source) == ("wordcount_kafka", spout)
    assert of_files.publications["lowered"].to.endswith("/wordcount/word_counts")
    assert of_kafka.publications["lowered"].to.endswith("/wordcount_kafka/word_counts")
    topics = [each.publications["lowered"].target.topic for each in (of_files, of_kafka)]
    assert topics == [None, KafkaTarget("127.0.0.1:9092", "word_counts", key="word")]


def test_a_source_that_nobody_knows_ends_the_demonstration_before_anything_starts(tmp_path):
    environ = os.environ | {"SOURCE": "kafak", "PIPELINE_HOME": str(tmp_path / "home"), "SPARK_REMOTE": ""}
    done = subprocess.run(
        [sys.executable, "-m", "pipeline.demo"], cwd=ROOT, env=environ, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "Error: SOURCE is 'kafak'; set it to files or kafka.\n"
    assert not (tmp_path / "home").exists()


def test_a_second_run_feeds_the_next_files(monkeypatch, tmp_path):
    monkeypatch.setattr(feeding, "SOURCES", tmp_path)
    files = Files()
    first = feed(files, 1)
    before = files.files()
    assert (len(before), sum(1 for _ in files.messages())) == (1, first)
    second = feed(files, 1)
    assert (len(files.files()), before < files.files()) == (2, True)
    assert sum(1 for _ in files.messages()) == first + second


def test_a_plain_count_leaves_messages_out(monkeypatch, tmp_path):
    monkeypatch.setattr(feeding, "SOURCES", tmp_path)
    Files().add("a/b.py", b"To be\nor \xff not\nto be")
    assert plain_counts(Files(), {"lines:a/b.py:2"}) == {"to": 2, "be": 2}


def test_the_lines_of_a_file_are_those_that_have_an_end_and_what_follows_them():
    assert [split(text) for text in (b"", b"a", b"a\n", b"a\n\nb", b"\n")] == [
        [],
        [b"a"],
        [b"a"],
        [b"a", b"", b"b"],
        [b""],
    ]

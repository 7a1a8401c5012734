"""The word count, as its author tests it."""

from acker.testing import Failure, run_bolt, run_topology
from pipeline import wordcount
from pipeline.wordcount import topology, words


def test_a_line_becomes_its_words():
    result = run_bolt(words, [{"value": "to be  or"}, {"value": ""}, {"value": "raise NotImplementedError"}])
    assert result.rows == [{"word": "to"}, {"word": "be"}, {"word": "or"}]
    failed = {"value": "raise NotImplementedError"}
    assert result.failures == [Failure(failed, "raises NotImplementedError")]


def test_words_are_counted_whatever_their_case(monkeypatch, tmp_path):
    monkeypatch.setattr(wordcount, "OUTAGE", tmp_path / "lookup-is-down")
    result = run_topology(topology, {"lines": [{"value": "To be or"}, {"value": "not to be lookup"}]})
    assert result.published["lowered"] == [
        {"word": "be", "count": 2},
        {"word": "lookup", "count": 1},
        {"word": "not", "count": 1},
        {"word": "or", "count": 1},
        {"word": "to", "count": 2},
    ]
    assert result.states == {"acked": 2}

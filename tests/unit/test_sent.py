"""What a publisher keeps of all that it has sent: digests of records, and tallies of partitions."""

import pytest

from acker.kafka.cluster import Partition
from acker.kafka.sent import Place, Sent, Tally, digest_of

ONE, OTHER = Place(Partition("a-b", 3), "cluster/id"), Place(Partition("c", 0), "cluster/id")


@pytest.mark.parametrize(
    ("record", "digest"),
    [
        ((b"key", b"value", b"lines:a:1", b"1"), 5028750889004303783),
        ((None, b"value", None, None), 14073354933513855512),
        ((b"", None, b"lines:a:1", b"2"), 5862656718248780647),
    ],
)
def test_a_digest_of_a_record_is_what_it_always_was(record, digest):
    assert digest_of(*record) == digest


def test_whatever_differs_in_a_record_has_another_digest():
    records = [
        (b"k", b"v", b"m", b"1"),
        (b"v", b"k", b"m", b"1"),
        (b"kv", b"", b"m", b"1"),
        (b"kv", None, b"m", b"1"),
        (None, b"kv", b"m", b"1"),
        (b"k", b"v", b"m", b"2"),
        (b"k", b"v", None, None),
    ]
    assert len({digest_of(*record) for record in records}) == len(records)


def test_what_was_sent_is_read_as_it_was_written():
    first = Sent(5).after(7, 1, {ONE: Tally(4, 5, 1, 2**64 - 1)})
    both = first.after(10, 0, {ONE: Tally(7, 9, 1, 3), OTHER: Tally(0, 1, others=1, others_digest=8)})
    assert both.places == {ONE: Tally(4, 9, 2, 2), OTHER: Tally(0, 1, 0, 0, 1, 8)}
    assert both.told == 4
    kept = {**first.to_records("(x)", [ONE]), **both.to_records("(x)", [ONE, OTHER])}
    assert Sent.of({key.decode().partition("\0")[2]: value for key, value in kept.items()}) == both


def test_what_an_older_version_sends_in_between_is_untold():
    sent = Sent(5).after(7, 2, {})
    assert sent.upto(7) == sent
    assert sent.upto(9) == Sent(9, untold=2, unsent=2)
    assert sent.upto(9).after(10, 1, {}) == Sent(10, untold=2, unsent=3)

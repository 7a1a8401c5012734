"""Messages as texts: what names one, and what does not."""

import pytest

from acker.core.errors import SettingsError, UnknownMessage
from acker.core.messages import MessageId, message_name, parse_position

TWO = ["orders", "payments"]


@pytest.mark.parametrize("text", ["a:b:²", "a:--5", "a:9223372036854775808", ":1", "a:", "a: 1", "a:1\n"])
def test_what_is_no_position(text):
    assert parse_position(text) is None


def test_what_is_a_position():
    assert parse_position("a:b'\n:-9223372036854775808") == ("a:b'\n", -(2**63))


@pytest.mark.parametrize(
    ("text", "spouts", "gone", "found"),
    [
        ("orders:0:1", TWO, (), MessageId("orders", "0", 1)),
        ("orders:c:/a.csv:1", TWO, (), MessageId("orders", "c:/a.csv", 1)),
        ("0:1", ["orders"], (), MessageId("orders", "0", 1)),
        ("refunds:0:1", TWO, ["refunds"], MessageId("refunds", "0", 1)),
        ("refunds:1", ["orders"], ["refunds"], MessageId("orders", "refunds", 1)),
        ("refunds:1", ["orders"], (), MessageId("orders", "refunds", 1)),
        ("0:1", TWO, (), None),
        ("orders:0:x", TWO, (), None),
    ],
)
def test_a_message_is_named_by_its_spout_and_its_position(text, spouts, gone, found):
    if found is None:
        with pytest.raises(UnknownMessage, match=r"is not a message of shop; write SPOUT:PARTITION:OFFSET"):
            MessageId.parse(text, "shop", spouts, gone)
    else:
        assert MessageId.parse(text, "shop", spouts, gone) == found


def test_a_message_is_read_back_from_its_text():
    message = MessageId("orders", "c:/a'b.csv", -1)
    assert MessageId.parse(str(message), "shop", TWO) == message


def test_what_no_table_can_hold_is_no_message():
    with pytest.raises(SettingsError, match=r"^The message .* is not valid UTF-8"):
        MessageId.parse("orders:\udcff:1", "shop", TWO)


def test_the_condition_on_a_message_takes_its_text_as_text():
    assert MessageId("orders", "it's", 1).condition() == (
        "spout = 'orders' AND source_partition = 'it''s' AND source_offset = 1"
    )


def test_a_row_that_no_message_owns_is_named_by_its_root():
    row = {"root_id": 7, "spout": None, "source_partition": None, "source_offset": None}
    assert message_name(row) == "root 7"

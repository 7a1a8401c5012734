"""Text that somebody else has written, in SQL, on a terminal and on a page."""

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from hypothesis import given, settings
from hypothesis import strategies as st

from acker.core.errors import SettingsError
from acker.core.quoting import check_text, markdown_code, printable, sql_name, sql_text
from acker.core.store.tables import open_table, query

TEXTS = st.text(max_size=40) | st.sampled_from(["'", "''", "\\'", "'; DROP TABLE t; --", "\x00", "$$", "{x}"])


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    path = str(tmp_path_factory.mktemp("quoting") / "t")
    write_deltalake(path, pa.table({"id": [1]}))
    return open_table(path)


@given(text=TEXTS)
@settings(derandomize=True, deadline=None)
def test_any_text_is_itself_as_a_literal(table, text):
    assert query(f"SELECT {sql_text(text)} AS found FROM t", t=table) == [{"found": text}]


def test_a_name_keeps_its_dots_and_backticks():
    assert sql_name("a.b") == "`a.b`"
    assert sql_name("a`) VALUES (1) --") == "`a``) VALUES (1) --`"


@given(text=st.text())
@settings(derandomize=True)
def test_what_is_printed_holds_nothing_that_a_terminal_obeys(text):
    assert printable(text).isprintable()
    assert printable(text) == text or not text.isprintable()


def test_what_a_terminal_would_obey_is_shown():
    assert printable("\x1b]0;owned\x07 \u202egpj") == "\\x1b]0;owned\\x07 \\u202egpj"
    assert printable("one\ntwo") == "one\\ntwo"
    assert printable("one\ntwo\r", keep="\n") == "one\ntwo\\r"


def test_code_in_markdown_is_closed_by_nothing_within_it():
    assert markdown_code("a mended bug") == "`a mended bug`"
    assert markdown_code("x` ![](http://elsewhere) `` \n- states: acked") == (
        "``` x` ![](http://elsewhere) `` \\n- states: acked ```"
    )


def test_bytes_that_are_no_text_are_refused():
    check_text("The why", "grüße 🙂")
    with pytest.raises(SettingsError, match=r"^The why 'caf\\udce9' is not valid UTF-8"):
        check_text("The why", "caf\udce9")

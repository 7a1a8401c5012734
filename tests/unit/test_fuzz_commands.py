"""Commands and forms as nobody means them: an answer, or one sentence and exit code 2."""

import sys

import pytest
from click.testing import CliRunner
from hypothesis import example, given, settings
from hypothesis import strategies as st

from acker.airflow import tasks
from acker.cli.commands import main
from acker.core.errors import AckerError, SettingsError
from acker.operations.selection.selection import MOST_POSITIONS
from tests.unit.fuzzed import ODD, REASON, folded

TEXTS = st.text(max_size=30) | st.sampled_from(
    [
        "",
        "'",
        "--",
        "-",
        "--json",
        "[/x]",
        "\x1b[2J",
        "\x00",
        "\udcff",
        "'; DROP TABLE ledger; --",
        "x" * 1_000,
    ]
)
OFFSETS = st.sampled_from(["1", "-1", "--5", "²", "٣", "9" * 19, "9" * 5_000, "1e3", " 1", "0x1"])
MESSAGES = TEXTS | st.builds("{}:{}:{}".format, st.sampled_from(["orders", "items", ""]), TEXTS, OFFSETS)
TIMES = st.sampled_from(["0001-01-01", "9999-12-31", "1600-01-01T00:00:00", "2026-13-01", "now", ""])
OPTIONS = st.one_of(
    st.tuples(st.just("--state"), st.sampled_from(["acked", "dead_letter", "lost", "pending", ""])),
    st.tuples(
        st.sampled_from(["--spout", "--reason", "--partition", "--component", "--why", "--requested-by"]),
        TEXTS,
    ),
    st.tuples(st.just("--message"), MESSAGES),
    st.tuples(st.sampled_from(["--since", "--until"]), TIMES),
    st.tuples(st.just("--limit"), OFFSETS),
    st.tuples(TEXTS),
)
TOPOLOGIES = st.sampled_from(["shop", "shop:topology"]) | TEXTS | st.builds("{}:{}".format, TEXTS, TEXTS)


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shop")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        patch.delitem(sys.modules, "shop", raising=False)
        found = folded(folder)
        for name, value in found.environ.items():
            patch.setenv(name, value)
        yield found
    sys.modules.pop("shop", None)


def answer(*arguments):
    """The exit code of a command and what it printed, of which a terminal obeys nothing."""
    found = CliRunner().invoke(main, list(arguments))
    assert found.exception is None or isinstance(found.exception, SystemExit), found.exception
    assert found.exit_code in (0, 1, 2)
    return found.exit_code, found.output


@given(options=st.lists(OPTIONS, max_size=4))
@example([("--state", "acked"), ("--message", "orders:x:--5")])
@example([("--state", "acked"), ("--since", "0001-01-01")])
@settings(derandomize=True, deadline=None, max_examples=150)
def test_a_replay_counts_or_is_refused(shop, options):
    code, _ = answer("replay", "shop", "--dry-run", *[each for option in options for each in option])
    assert code in (0, 2)


@given(message=MESSAGES)
@settings(derandomize=True, deadline=None, max_examples=100)
def test_a_trace_tells_or_is_refused(shop, message):
    assert answer("trace", "shop", message)[0] in (0, 2)


@given(command=st.sampled_from(["status", "audit", "describe"]), name=TOPOLOGIES)
@settings(derandomize=True, deadline=None, max_examples=60)
def test_a_topology_is_found_or_is_refused(shop, command, name):
    assert answer(command, name)[0] in (0, 2)


@pytest.mark.parametrize("arguments", [("trace", "shop", f"orders:{ODD}:2"), ("audit", "shop")])
def test_a_files_name_and_a_reason_are_shown_and_not_obeyed(shop, arguments):
    code, output = answer(*arguments)
    assert code == 0
    assert "\x1b" not in output and "\x07" not in output
    assert "\\x1b" in output and "[/b]" in output
    assert [line.strip() for line in output.splitlines()].count("verdict: pass") == (arguments[0] == "audit")


def test_what_a_topology_says_of_itself_is_no_markup(shop):
    code, output = answer("describe", "shop:topology")
    assert code == 0
    assert "Takes [/red] orders." in " ".join(output.split())


def test_a_module_that_ends_is_no_topology(shop, tmp_path, monkeypatch):
    (tmp_path / "ending.py").write_text("raise SystemExit(0)")
    monkeypatch.syspath_prepend(str(tmp_path))
    code, output = answer("status", "ending:topology")
    assert code == 2 and "ending:topology does not import: SystemExit" in output


ODD_VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), TEXTS, TIMES, MESSAGES,
    st.lists(TEXTS | MESSAGES | st.integers(), max_size=3), st.dictionaries(TEXTS, TEXTS, max_size=1),
)  # fmt: skip
FIELDS = (
    *("spout", "positions", "partition", "component"),
    *("since", "until", "reason", "where", "limit", "dry_run"),
)
FORMS = st.fixed_dictionaries(
    {"states": st.just(["dead_letter"]) | ODD_VALUES}, optional=dict.fromkeys(FIELDS, ODD_VALUES)
)


@given(form=FORMS)
@example({"states": ["x"]})
@example({"states": ["acked"], "spout": "orders", "positions": ["a:²"]})
@example({"states": ["acked"], "since": "2026-01-01T00:00:60Z"})
@example({"states": ["acked"], "reason": 3})
@example({"states": ["acked"], "where": "true"})
@settings(derandomize=True, deadline=None, max_examples=200)
def test_a_form_is_counted_or_is_refused(shop, form):
    try:
        found = tasks.count_requested("shop", form)
    except AckerError as error:
        assert "cannot be read" not in str(error)
    else:
        assert set(found) - {"unseen"} == {"matched", "in_flight"}


def test_a_reason_is_found_by_its_text(shop):
    form = {"states": ["dead_letter"], "reason": REASON}
    assert tasks.count_requested("shop", form) == {"matched": 1, "in_flight": 0}
    assert tasks.count_requested("shop", form | {"reason": "' OR 1 = 1 --"}) == {"matched": 0, "in_flight": 0}


def test_messages_are_chosen_by_pairs_of_partition_and_offset(shop):
    positions = [f"{ODD}:9", "other:1", f"{ODD}:2"]
    form = {"states": ["acked", "dead_letter"], "spout": "orders", "positions": positions}
    assert tasks.count_requested("shop", form) == {"matched": 1, "in_flight": 0}


def test_thousands_of_positions_are_counted_and_too_many_refused(shop):
    form = {"states": ["dead_letter"], "spout": "orders"}
    many = [f"{ODD}:{number}" for number in range(MOST_POSITIONS)]
    assert tasks.count_requested("shop", form | {"positions": many}) == {"matched": 1, "in_flight": 1}
    with pytest.raises(SettingsError, match=r"^10,001 messages are named, and 10,000 may be"):
        tasks.count_requested("shop", form | {"positions": [*many, "x:1"]})


def test_times_reach_from_the_first_year_to_the_last(shop):
    form = {
        "states": ["dead_letter"],
        "since": "0001-01-01T00:00:00+14:00",
        "until": "9999-12-31T23:59:59-14:00",
    }
    assert tasks.count_requested("shop", form) == {"matched": 1, "in_flight": 1}

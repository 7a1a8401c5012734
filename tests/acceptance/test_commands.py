"""The command line as people and schedulers use it: real processes, their output and their exit codes."""

import shutil
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner
from deltalake import DeltaTable, write_deltalake

from acker.cli.commands import main
from tests.kit.shell import NO_SPARK, TOPOLOGY, Shell

EMPTY: dict[str, list[Any]] = {"lost": [], "unexpected": [], "duplicated": []}


def later(*values: Any) -> Any:
    """A case that `make test` leaves out, as others hold the same."""
    return pytest.param(*values, marks=pytest.mark.extended)


@pytest.fixture(scope="module")
def shell(remote, tmp_path_factory):
    return Shell(tmp_path_factory.mktemp("commands"), remote)


@pytest.fixture(scope="module")
def answers(shell):
    """What commands printed in a store's life: a cycle with failures, a drain, a replay, a cycle."""
    numbers, outage = str(shell.folder / "numbers"), shell.folder / "outage"
    write_deltalake(numbers, pa.table({"id": [1, 2, 3, -4]}))
    outage.touch()
    told = {"run": shell("run", "squares", "--json", "--limit", "3")}
    told["audit while failing"] = shell("audit", "squares", "--json", **NO_SPARK)
    told["drain"] = shell("run", "squares_topology:topology", "--drain", "--json")
    outage.unlink()
    told["dry run"] = shell("replay", "squares", "--state", "dead_letter", "--dry-run", "--json")
    told["replay"] = shell(
        "replay", "squares", "--state", "dead_letter", "--reason", "lookup", "--why", "it's up", "--json"
    )
    told["status between"] = shell("status", "squares", "--json", **NO_SPARK)
    told["run after"] = shell("run", "squares")
    told["fold"] = shell("fold", "squares", "--json")
    told["publish"] = shell("publish", "squares", "--json")
    told["replay of nothing"] = shell("replay", "squares")
    return told


def test_a_cycle_prints_what_it_did(answers):
    failure = {"component": "squared", "state": "retrying", "count": 1}
    failures = [
        {**failure, "reason": "below 0", "sample": "numbers:0:-4"},
        {**failure, "reason": "lookup is down", "sample": "numbers:0:2"},
    ]
    counts = {"messages": 3, "replayed": 0, "batches": 2, "commits": 1, "failed": 2}
    expected = {**counts, "failures": failures, "held_back": []}
    assert (answers["run"].json(), answers["run"].code) == (expected, 0)


@pytest.mark.extended
def test_a_run_in_which_everything_fails_says_why_and_ends_with_3(shell):
    write_deltalake(str(shell.folder / "lows"), pa.table({"id": [-1, -2]}))
    lows = TOPOLOGY.replace('"numbers", key', '"lows", key').replace('to="squares"', 'to="low_squares"')
    (shell.folder / "lows_topology.py").write_text(lows)
    store = {"PIPELINE_STORE": str(shell.folder / "lows_store")}
    done = shell("run", "lows_topology:topology", **store)
    assert done.code == 3
    assert done.out == (
        "2 failed in squared, tried again: below 0 (such as numbers:0:-2)\n"
        "messages 2, replayed 0, batches 2, commits 0\n"
    )


@pytest.mark.extended
def test_a_batch_that_cannot_run_is_held_and_can_be_given_up(shell):
    write_deltalake(str(shell.folder / "held"), pa.table({"id": [1]}))
    broken = TOPOLOGY.replace('"numbers", key', '"held", key').replace('F.col("id") *', 'F.col("di") *')
    broken = broken.replace('to="squares"', 'to="held_squares"')
    (shell.folder / "held_topology.py").write_text(broken)
    store = {"PIPELINE_STORE": str(shell.folder / "held_store")}
    name = "held_topology:topology"
    held = shell("run", name, **store)
    assert held.code == 2
    assert "squared batch 1 is held: Bolt squared: " in held.err
    (row,) = [each for each in shell("status", name, "--json", **store).json()["components"] if each["held"]]
    assert (row["component"], row["held"]["tries"]) == ("squared", 1)
    given_up = shell(
        "give-up", name, "squared", "--why", "typo", "--requested-by", "ada", **NO_SPARK, **store
    )
    assert given_up.out == "squared batch 1 is given up; the next fold fails its messages.\n"
    assert shell("fold", name, **NO_SPARK, **store).code == 0
    failures = shell("failures", name, "--json", **NO_SPARK, **store).out
    assert "given up by ada: typo" in failures
    again = shell("give-up", name, "squared", "--why", "typo", **NO_SPARK, **store)
    assert (again.code, "squared has no batch to give up" in again.err) == (2, True)


def test_a_run_tells_its_steps_on_standard_error_and_its_result_on_standard_output(answers):
    done = answers["run after"]
    assert (done.out, done.code) == ("messages 0, replayed 0, batches 1, commits 1\n", 0)
    assert "squared batch" in done.err
    assert "published" in done.err
    assert answers["run"].err == ""


def test_a_drain_ends_when_all_has_settled(answers):
    assert answers["drain"].code == 0
    assert answers["drain"].json()["cycles"] > 1


def compared(shell, messages):
    """What an audit says of the only stream, all of whose messages it compared."""
    numbers = {"compared": messages, "by_count": 0, "not_compared": 0, "why": []}
    return {"squared": {"to": str(shell.folder / "squares"), **numbers}}


def test_the_audit_of_messages_that_wait_for_a_retry_passes(answers, shell):
    found = answers["audit while failing"]
    counts = {name: value for name, value in found.json().items() if value}
    assert (found.code, counts) == (
        0,
        {"emitted": 3, "acked": 1, "retrying": 2, "verdict": "pass", "findings": EMPTY}
        | {"streams": compared(shell, 1)},
    )


def test_a_dry_run_counts_and_does_nothing(answers):
    listed = {"attempt": 3, "state": "dead_letter", "component": "squared"}
    assert answers["dry run"].json() == {
        "matched": 2,
        "in_flight": 0,
        "messages": [
            {"message": "numbers:0:-4", "reason": "below 0", **listed},
            {"message": "numbers:0:2", "reason": "lookup is down", **listed},
        ],
        "replayed": 0,
    }


def test_a_replay_by_hand_emits_what_was_chosen(answers):
    assert answers["replay"].json() == {"matched": 1, "in_flight": 0, "replayed": 1}
    spout = answers["status between"].json()["components"][0]
    assert (spout["component"], spout["logged"], spout["unfinished"]) == ("numbers", 4, False)


def test_what_the_store_tells_of_a_message_is_forgotten(answers, shell):
    shutil.copytree(shell.folder / "home" / "store", shell.folder / "forgetting")
    here = {**NO_SPARK, "PIPELINE_STORE": str(shell.folder / "forgetting")}
    forget = ("forget", "squares", "--message", "numbers:0:-4", "--why", "asked to")
    counts = {"messages": 1, "partners": 0, "unknown": 0, "events": 2, "ledger": 3, "holds": 0}
    dry = shell(*forget, "--dry-run", "--json", **here)
    assert dry.json() == {"dry_run": True, **counts, "file_retention_hours": 168}
    assert shell(*forget, **here).out == (
        "messages 1, events 2, ledger 3\nOld files of these tables keep the reasons until they are vacuumed, "
        "168 hours from now (PIPELINE_FILE_RETENTION_HOURS).\n"
    )
    assert shell(*forget, **here).out == "messages 1\n"
    entries = shell("trace", "squares", "numbers:0:-4", **here).out
    assert ("below 0" in entries, "forgotten" in entries) == (False, True)
    assert shell("audit", "squares", **here).code == 0


@pytest.mark.extended
def test_what_is_to_be_forgotten_must_be_chosen(shell):
    done = shell("forget", "squares", "--why", "asked to", **NO_SPARK)
    assert (done.code, done.err[:29]) == (2, "Error: Choose what to forget:")


def test_a_replay_of_what_is_due_counts_it(answers):
    assert (answers["replay of nothing"].out, answers["replay of nothing"].code) == ("replayed 0\n", 0)


def test_a_fold_prints_its_own_row(answers):
    done = answers["fold"].json()
    assert (done["counts"]["late"], done["logged"]) == (0, {"numbers": 4, "squared": 3})
    assert answers["fold"].code == 0


@pytest.mark.extended
def test_a_fold_imports_nothing_that_connects_to_spark(answers, shell):
    imported = shell("fold", "squares", PYTHONPROFILEIMPORTTIME="1").err
    assert "acker.operations.fold" in imported
    assert "pyspark.sql.connect.session" not in imported


def test_publishing_again_commits_nothing(answers):
    assert (answers["publish"].json(), answers["publish"].code) == ({"commits": 0}, 0)


def test_the_audit_prints_every_count_and_the_dead_letters(answers, shell):
    found = shell("audit", "squares", "--json", **NO_SPARK)
    assert (found.code, found.json()) == (
        0,
        {
            "emitted": 4,
            "acked": 3,
            "pending": 0,
            "retrying": 0,
            "dead_letter": 1,
            "lost": 0,
            "unexpected": 0,
            "duplicated": 0,
            "recovered": 1,
            "unpublished": 0,
            "late": 0,
            "dead_letters": [{"message": "numbers:0:-4", "why": "attempt 2 in squared: below 0"}],
            "findings": EMPTY,
            "streams": compared(shell, 3),
            "overdue": {},
            "left_out": {},
            "changed": {},
            "gone": {},
            "unknown": {},
            "verdict": "pass",
        },
    )


@pytest.mark.extended
def test_the_audit_for_people_ends_with_the_verdict(answers, shell):
    found = shell("audit", "squares", **NO_SPARK)
    assert found.out.splitlines()[-4:] == [
        "dead letters:",
        "  numbers:0:-4  attempt 2 in squared: below 0",
        "squared: of its messages 3 compared by what their rows say",
        "verdict: pass",
    ]


def test_status_says_where_everything_stands(answers, shell):
    found = shell("status", "squares", "--json", **NO_SPARK).json()
    components = [(row["component"], row["planned"], row["waiting_batches"]) for row in found["components"]]
    assert components == [("numbers", 4, {}), ("squared", 3, {"numbers": 0})]
    assert found["states"] == {"acked": 3, "failed": 4, "dead_letter": 2}
    assert found["published"][0]["component"] == "squared"
    assert "squares in " in shell("status", "squares", **NO_SPARK).out


def test_a_trace_tells_a_messages_story(answers, shell):
    found = shell("trace", "squares", "numbers:0:2", "--json", **NO_SPARK)
    steps = [(entry["attempt"], entry["what"]) for entry in found.json()]
    failed = ["emitted", "failed by", "failed"]
    assert steps == [
        *((1, what) for what in failed),
        *((2, what) for what in [*failed, "dead_letter"]),
        *((3, what) for what in ["emitted", "acked by", "acked", "published"]),
    ]
    assert "lookup is down" in shell("trace", "squares", "0:2", **NO_SPARK).out


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("trace", "squares", "numbers:0:99"), "has never seen numbers:0:99"),
        later(("trace", "squares", "99"), "'99' is not a message of squares; write SPOUT:PARTITION:OFFSET"),
        later(("status", "unknown"), "No topology is called unknown; registered are: squares."),
        later(("status", "nowhere:topology"), "nowhere:topology does not import: ModuleNotFoundError"),
        later(("status", "raising:topology"), "raising:topology does not import: ZeroDivisionError"),
        later(("status", "other:topology"), "other:topology is str and not a Topology."),
        later(("status", "other:missing"), "other:missing is nothing and not a Topology."),
        later(("replay", "squares", "--reason", "x"), "Choose states as well: reason can only narrow"),
        (("run", "squares"), "No Spark Connect server answers at sc://127.0.0.1:9."),
    ],
)
def test_an_error_is_one_sentence_and_exit_code_2(answers, shell, arguments, sentence):
    answer = shell(*arguments, **NO_SPARK)
    assert (answer.code, answer.out, answer.err.startswith("Error: ")) == (2, "", True)
    assert sentence in answer.err
    assert "Traceback" not in answer.err


@pytest.mark.extended
def test_with_json_an_error_is_json(answers, shell):
    answer = shell("trace", "squares", "0:99", "--json", **NO_SPARK)
    assert (answer.code, answer.err, list(answer.json())) == (2, "", ["error"])
    assert "has never seen numbers:0:99" in answer.json()["error"]


@pytest.mark.parametrize(
    "arguments",
    [
        ("dance", "squares"),
        ("run",),
        ("run", "squares", "--limit", "-1"),
        ("replay", "squares", "--state", "pending"),
        ("replay", "squares", "--since", "yesterday"),
        ("trace", "squares"),
        ("audit", "squares", "--wrong"),
    ],
)
def test_wrong_arguments_end_with_exit_code_2(arguments):
    answer = CliRunner().invoke(main, arguments)
    assert (answer.exit_code, answer.stdout, answer.stderr.startswith("Error: ")) == (2, "", True)


@pytest.mark.extended
def test_a_store_that_was_never_used_is_named(shell, tmp_path):
    answer = shell("audit", "squares", PIPELINE_STORE=str(tmp_path), **NO_SPARK)
    assert (answer.code, answer.out) == (2, "")
    assert "Has `acker run squares` run with this store?" in answer.err


@pytest.mark.extended
def test_a_file_in_the_way_of_the_store_is_named(shell, tmp_path):
    (tmp_path / "squares").write_text("in the way")
    answer = shell("run", "squares", PIPELINE_STORE=str(tmp_path))
    assert (answer.code, answer.out, answer.err.startswith("Error: ")) == (2, "", True)
    assert str(tmp_path) in answer.err
    assert "Traceback" not in answer.err


@pytest.fixture
def copied_store(answers, shell, tmp_path):
    """A copy of the answers's store that a test may damage."""
    shutil.copytree(shell.folder / "home" / "store", tmp_path / "store")
    return tmp_path / "store"


@pytest.mark.parametrize("command", [("audit", "squares"), later(("trace", "squares", "0:2"))])
def test_a_damaged_ledger_is_named(shell, copied_store, command):
    newest = sorted((copied_store / "squares" / "ledger" / "_delta_log").glob("*.json"))[-1]
    newest.write_bytes(newest.read_bytes()[:100])
    answer = shell(*command, PIPELINE_STORE=str(copied_store), **NO_SPARK)
    assert (answer.code, answer.out, answer.err.startswith("Error: ")) == (2, "", True)
    assert str(copied_store / "squares" / "ledger") in answer.err


@pytest.mark.parametrize(
    ("table", "command"),
    [
        ("ledger", ("audit", "squares")),
        later("events", ("trace", "squares", "0:2")),
        later("batches", ("status", "squares")),
    ],
)
def test_a_table_without_its_data_is_named(shell, copied_store, table, command):
    for file in (copied_store / "squares" / table).rglob("*.parquet"):
        file.unlink()
    answer = shell(*command, PIPELINE_STORE=str(copied_store), **NO_SPARK)
    assert (answer.code, answer.out, answer.err.startswith("Error: ")) == (2, "", True)
    assert f"{copied_store}/squares/{table}" in answer.err


def test_an_audit_that_counts_alone_is_not_strict(answers, shell):
    codes = [
        shell("audit", "squares", *options, **NO_SPARK).code
        for options in ((), ("--strict",), ("--quick",), ("--quick", "--strict"))
    ]
    assert codes == [0, 0, 0, 1]


def test_rows_that_are_missing_from_a_published_table_fail_the_audit(answers, shell):
    squares = DeltaTable(str(shell.folder / "squares"))
    squares.delete("id = 3")
    answer = shell("audit", "squares", "--json", **NO_SPARK)
    squares.restore(squares.version() - 1)
    found = answer.json()
    assert (answer.code, found["verdict"], found["lost"]) == (1, "fail", 1)
    assert found["findings"]["lost"][0]["message"] == "numbers:0:3"

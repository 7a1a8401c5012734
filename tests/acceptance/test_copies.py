"""`acker backup`, `restore`, `move`, `migrate` and `acknowledge` as people call them."""

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from acker.core.snapshot.journal import Journal
from acker.core.store.store import Store
from acker.operations.maintenance.upkeep import newest
from tests.kit.shell import NO_SPARK, Shell


@pytest.fixture(scope="module")
def shell(remote, tmp_path_factory):
    """A store after a cycle in which one message of three failed for good."""
    shell = Shell(tmp_path_factory.mktemp("copies"), remote)
    write_deltalake(str(shell.folder / "numbers"), pa.table({"id": [1, 2, -4]}))
    assert shell("run", "squares", "--drain").code == 0
    return shell


@pytest.fixture(scope="module")
def backup(shell):
    """What `acker backup` printed, to a folder with a space in its name."""
    return shell("backup", "squares", "first backup", **NO_SPARK)


def elsewhere(shell, remote, name):
    """The same topology in another folder, where its store and its published table are to be."""
    (shell.folder / name).mkdir()
    return Shell(shell.folder / name, remote)


def test_a_backup_tells_what_it_holds(shell, backup):
    lines = backup.out.splitlines()
    assert (backup.code, backup.err, lines[-2]) == (
        0,
        "",
        f"{shell.folder}/first backup holds squares up to fold 3.",
    )
    assert lines[-1] == (
        "The audit says pass: 3 messages emitted, 2 acked, 0 lost, 0 unexpected, 0 duplicated."
    )
    manifest = json.loads((shell.folder / "first backup" / "manifest.json").read_text())
    size = manifest["published"]["squared"]["bytes"]
    assert f"squared: version 0, 1 files, {size:,} bytes" in lines
    again = shell("backup", "squares", "first backup", "--json", **NO_SPARK)
    assert (again.code, "Name another folder." in again.json()["error"]) == (2, True)


def test_a_backup_that_cannot_be_ended_is_told_by_the_monitor_until_one_is(shell, backup):
    in_the_way = shell.folder / "another backup" / "manifest.json"
    in_the_way.mkdir(parents=True)
    failed = shell("backup", "squares", "another backup", **NO_SPARK)
    assert (failed.code, "manifest.json could not be written" in failed.err) == (2, True)
    store = Store(str(shell.folder / "home" / "store"), "squares")
    fault = newest(Journal(store))["backup"].fault
    assert fault is not None
    assert fault in failed.err
    in_the_way.rmdir()
    assert shell("backup", "squares", "another backup", **NO_SPARK).code == 0
    assert newest(Journal(store))["backup"].fault is None


def test_a_restored_store_goes_on_where_the_backup_ended(shell, backup, remote):
    there = elsewhere(shell, remote, "restored")
    told = there("restore", "squares", str(shell.folder / "first backup"), **NO_SPARK)
    assert (told.code, told.err) == (0, "")
    assert told.out.startswith(f"{there.folder}/home/store/squares is squares as it was at ")
    shutil.copytree(shell.folder / "numbers", there.folder / "numbers")
    write_deltalake(str(there.folder / "numbers"), pa.table({"id": [7]}), mode="append")
    assert there("run", "squares", "--json").json()["messages"] == 1
    shown = there("show", "squares", "squared", "--json", **NO_SPARK).json()
    assert sorted(row[shown["columns"].index("id")] for row in shown["rows"]) == [1, 2, 7]
    refused = there("restore", "squares", str(shell.folder / "first backup"), **NO_SPARK)
    assert (refused.code, "is there already, and nothing is overwritten" in refused.err) == (2, True)
    nothing = there("restore", "squares", "typo", **NO_SPARK)
    assert (nothing.code, Path(there.folder, "typo").exists()) == (2, False)


def test_a_store_is_moved_once_it_is_sure_that_nobody_works_on_it(shell, backup, remote):
    there = elsewhere(shell, remote, "moved")
    there("restore", "squares", str(shell.folder / "first backup"), **NO_SPARK)
    assert there("publish", "squares").code == 0  # by which a deployment works on it
    refused = there("move", "squares", "new store", **NO_SPARK)
    assert (refused.code, "Then say --stopped, or run the command again in" in refused.err) == (2, True)
    done = there("move", "squares", "new store", "--stopped", "--json", **NO_SPARK)
    assert (done.code, done.json()) == (0, {"store": f"{there.folder}/new store", "verdict": "pass"})
    closed = there("run", "squares")
    assert (closed.code, closed.err.strip().splitlines()[-1]) == (
        2,
        f"Error: {there.folder}/home/store/squares was moved. Set PIPELINE_STORE={there.folder}/new store.",
    )
    moved = {"PIPELINE_STORE": f"{there.folder}/new store"}
    assert there("audit", "squares", **moved, **NO_SPARK).code == 0
    assert there("publish", "squares", "--json", **moved).json() == {"commits": 0}


def test_what_was_given_up_is_acknowledged_and_a_store_of_this_version_has_nothing_to_migrate(shell):
    assert shell("failures", "squares", "--json", **NO_SPARK).json()["fold"] == 3
    said = ("--fold", "3", "--why", "negative", "--by", "me", "--json")
    known = shell("acknowledge", "squares", *said, **NO_SPARK)
    assert (known.code, known.json()) == (0, {"fold": 3})
    told = shell("migrate", "squares", "--dry-run", "--json", **NO_SPARK)
    assert (told.code, told.json()["migrated"]) == (0, [])


def test_another_home_is_refused_before_anything_is_made_and_told_who_publishes_there(shell, remote):
    other = {"PIPELINE_HOME": str(shell.folder / "other"), "SPARK_REMOTE": remote}
    refused = shell("run", "squares", **other)
    assert (refused.code, "squares has rows of another store. The store " in refused.err) == (2, True)
    assert not (shell.folder / "other" / "store").exists()
    told = shell("adopt", "squares", "squared", "--dry-run", **{**other, **NO_SPARK})
    assert told.out.splitlines() == [
        f"{shell.folder}/home/store/squares has published squared there up to fold 1.",
        f"{shell.folder}/other/store/squares would publish squared to {shell.folder}/squares beside what is "
        "there. A message that two stores have read is there twice.",
    ]
    assert not (shell.folder / "other" / "store").exists()


def test_what_is_dropped_is_published_again_by_the_command_that_the_error_names(shell):
    shutil.move(shell.folder / "squares", shell.folder / "moved away")
    refused = shell("publish", "squares")
    named = "publish what it lacks again with `acker republish squares squared`, first with --dry-run."
    assert (refused.code, named in refused.err) == (2, True)
    would = shell("republish", "squares", "squared", "--dry-run", **NO_SPARK)
    assert (would.code, would.out) == (0, "2 messages after fold 0 would be published again.\n")
    done = shell("republish", "squares", "squared")
    assert (done.code, done.out.splitlines()[0]) == (0, "2 messages after fold 0 are published again.")
    again = shell("republish", "squares", "squared", "--json").json()
    assert (again["why"], again["messages"], again["commits"]) == (None, 0, 0)
    assert shell("audit", "squares", **NO_SPARK).code == 0

"""Store and table say the same of where a publisher stands, or it is told what is wrong."""

import shutil

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from acker.core.snapshot.publishers import Meeting, has_published, meet
from acker.core.snapshot.snapshot import Snapshot
from acker.core.store.identity import become_another, identity_of, publish_again
from acker.core.store.schemas import LEDGER
from acker.core.store.store import Store
from acker.targets.append import DeltaAppend
from acker.targets.base import Publisher
from acker.targets.standing import StandingError, check_new, standing_of
from tests.kit.places import Clock


class World:
    """A store with three folds, and a table to which a test publishes by hand."""

    def __init__(self, folder, name="store"):
        self.store = Store(str(folder / name), "n")
        self.store.create()
        self.target = DeltaAppend(str(folder / "out"))
        ledger = self.store.require(LEDGER)
        once = CommitProperties(app_transactions=[Transaction("fold", 3)])
        ledger.create_write_transaction([], "append", ledger.schema(), commit_properties=once)

    @property
    def publisher(self):
        return Publisher.of(self.store.require(LEDGER), "lines")

    def publish(self, fold, is_known=True, is_shared=False):
        app, rows = self.publisher.app, pa.table({"id": [fold], "_root_id": [fold]})
        said = {"userMetadata": self.publisher.note(fold, is_shared)}
        once = CommitProperties(custom_metadata=said, app_transactions=[Transaction(app, fold)])
        write_deltalake(self.target.path, rows, mode="append", commit_properties=once)
        if is_known:
            self.know(fold, is_shared)

    def know(self, fold, is_shared=False):
        app, who = self.publisher.app, self.target.target_id() or ""
        meet(self.store, Meeting("lines", self.target.path, who, app, fold, "first"), is_shared, Clock()())
        has_published(self.store, app, who, fold)

    def look(self):
        return standing_of(Snapshot(self.store), self.target.pinned(), "lines")

    def fault(self):
        with pytest.raises(StandingError) as raised:
            self.look()
        return str(raised.value).replace(self.target.path, "OUT").replace(self.store.path("")[:-1], "STORE")


@pytest.fixture
def world(tmp_path):
    """Two folds are published, and known to be."""
    world = World(tmp_path)
    world.publish(1)
    world.publish(2)
    return world


def test_a_store_that_is_behind_its_table_as_after_a_crash_goes_on(world):
    world.publish(3, is_known=False)
    standing = world.look()
    assert (standing.fold, standing.own, standing.held, standing.known.fold) == (3, 3, 3, 2)


def test_commits_of_others_that_publish_nothing_are_passed_over(world):
    table = DeltaTable(world.target.path)
    table.optimize.compact()
    table.delete("id = 1")
    assert world.look().held == 2


def test_a_table_that_is_gone_made_anew_or_put_back_is_told(world, tmp_path):
    again = "publish what it lacks again with `acker republish n lines`, first with --dry-run."
    shutil.copytree(world.target.path, tmp_path / "kept")
    DeltaTable(world.target.path).restore(0)
    assert world.fault() == (
        "OUT holds lines up to fold 1, and STORE has published fold 2 there: it was restored, or an older "
        f"copy of it was put back. Put its newest version back, or {again}"
    )
    shutil.rmtree(world.target.path)
    assert world.fault() == f"OUT is gone, and STORE has published fold 2 there. Put it back, or {again}"
    write_deltalake(world.target.path, pa.table({"id": [7]}))
    assert world.fault() == (
        "OUT is not the one to which STORE has published fold 2: that was deleted and made anew, or another "
        f"is in its place. Put it back, or {again}"
    )
    shutil.rmtree(world.target.path)
    shutil.copytree(tmp_path / "kept", world.target.path)
    assert world.look().fold == 2


@pytest.mark.parametrize(
    ("versions", "held"), [((1,), 2), ((0,), 1), ((0, 2), 3), ((0, 2, 3), 1), ((1, 0, 2), 3), ((1, 0, 3), 2)]
)
def test_of_restores_the_newest_says_what_a_table_holds(world, versions, held):
    world.publish(3)
    for version in versions:
        DeltaTable(world.target.path).restore(version)
    notes = [note.fold for note in world.target.pinned().notes()]
    assert notes == list(range(held, 0, -1))


def test_another_store_is_a_stranger_until_that_is_allowed(world, tmp_path):
    other = World(tmp_path, "other")
    told = f"OUT has rows of another store. The store {world.store.path('')[:-1]} has published lines there"
    assert other.fault().startswith(told)
    assert other.fault().endswith("If both are to publish there, run `acker adopt n lines`.")
    other.publish(1, is_known=False)  # by a version that did not look
    assert world.fault().startswith(
        f"OUT has rows of another store. The store {other.store.path('')[:-1]} has"
    )
    assert (other.look().own, other.look().stranger) == (1, None)
    other.publish(2, is_shared=True)
    world.publish(3)
    assert (world.look().stranger, other.look().stranger) == (None, None)


def test_a_store_that_is_not_there_is_not_made_where_something_was_published(world, tmp_path):
    with pytest.raises(
        StandingError, match=r"out has rows of another store\. The store .*/store/n has published"
    ):
        check_new(world.target.pinned(), Store(str(tmp_path / "new"), "n"), "lines")
    shutil.rmtree(world.store.path(""))
    with pytest.raises(
        StandingError, match=r"^The store .*/store/n is gone: it has published lines to .*out up"
    ):
        check_new(world.target.pinned(), Store(world.store.uri, "n"), "lines")
    check_new(DeltaAppend(str(tmp_path / "empty")).pinned(), Store(str(tmp_path / "new"), "n"), "lines")


def test_a_copy_goes_on_unless_its_original_has_gone_on(world):
    original = identity_of(world.store.require(LEDGER))
    become_another(world.store.require(LEDGER), original, 2)
    standing = world.look()
    assert (standing.fold, standing.own, standing.known.fold, standing.stranger) == (2, 0, 2, None)
    note = Publisher(original, "lines", "/srv/first/n")
    said = CommitProperties(custom_metadata={"userMetadata": note.note(3)})
    write_deltalake(
        world.target.path, pa.table({"id": [3], "_root_id": [3]}), mode="append", commit_properties=said
    )
    assert "The store /srv/first/n has published lines there up to fold 3" in world.fault()
    assert "STORE is a copy of it, made at fold 2, and would" in world.fault()


def test_who_publishes_again_begins_after_what_is_there_and_is_no_stranger_to_itself(world):
    DeltaTable(world.target.path).restore(0)
    ledger = world.store.require(LEDGER)
    publish_again(ledger, "lines", identity_of(ledger, "lines").again_after(1, 0))
    world.know(1)
    assert (world.look().fold, world.look().held, world.look().own) == (1, 1, 0)
    world.publish(2)
    assert (world.look().fold, world.look().own) == (2, 2)
    assert identity_of(world.store.require(LEDGER)).own != world.publisher.store.own

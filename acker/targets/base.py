"""The protocol of targets: places where the tuples of a stream appear once their messages are acked.

A target keeps its own position, which is the newest fold that it holds. One commit brings both a fold and the
new position. So a publish that is repeated or interrupted changes nothing.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, ClassVar

import polars as pl
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession

from acker.core.errors import StoreError, TopologyError
from acker.core.snapshot.kept import Kept
from acker.core.snapshot.ledger import APP
from acker.core.snapshot.snapshot import Snapshot
from acker.core.snapshot.trims import Trim
from acker.core.snapshot.verdict import Finding
from acker.core.store.identity import Identity, identity_of
from acker.core.store.schemas import LEDGER
from acker.core.store.tables import RECOVERY_HINT, last_number, open_table, path_of
from acker.core.stream_names import component_of

if TYPE_CHECKING:
    from acker.targets.by_key import ByKey


def _no_roots() -> pl.DataFrame:
    return pl.DataFrame(schema={"root_id": pl.Int64})


@dataclass(frozen=True)
class Publisher:
    """The publisher of a stream of a store. A target may serve several stores.

    Args:
        store: the ids of the store, and not its path. So a store that is named by another URI does not
            publish everything a second time.
        stream: a component's name, or `component.stream`.
        where: path or URI of the store, for people who find its rows in a target.
    """

    store: Identity
    stream: str
    where: str = field(default="", compare=False)

    @classmethod
    def of(cls, ledger: DeltaTable, stream: str) -> "Publisher":
        """The publisher of a stream of the store to which a ledger belongs."""
        return cls(identity_of(ledger, stream), stream, path_of(ledger).removesuffix(f"/{LEDGER}"))

    @property
    def app(self) -> str:
        """The transaction id under which the publisher commits."""
        return f"{self.store.own}/{self.stream}"

    @property
    def former(self) -> list[tuple["Publisher", int]]:
        """The stream's publishers in the stores of which this store is a copy.

        Each comes with the newest of its folds that count as published by this store.
        """
        return [(Publisher(Identity(store), self.stream), fold) for store, fold in self.store.former.items()]

    def note(self, fold: int, is_shared: bool = False) -> str:
        """The user metadata of the commit that publishes a fold, by which a target finds the commit."""
        shared = {"shared": True} if is_shared else {}
        return json.dumps({"published": self.app, "fold": fold, "store": self.where, **shared})


@dataclass(frozen=True)
class Note:
    """The note that a target keeps of a published fold.

    Args:
        app: the publisher's transaction id.
        fold: the number of the fold.
        at: the time of the publish, in UTC.
        store: path or URI of the publisher's store; "" where an older version published.
        is_shared: whether the publisher knows that others publish to the target.
    """

    app: str
    fold: int
    at: datetime
    store: str = ""
    is_shared: bool = False


@dataclass(frozen=True)
class Changes:
    """The tuples that one fold adds to a target, and those that it replaces.

    Args:
        added: the tuples that were acked: `_root_id`, null where they are untracked, and the user's columns.
        is_small: whether the added tuples are few, and may pass through this process.
        messages: of each root that was acked: `_root_id`, spout, source_partition, source_offset, attempt.
        replaced_roots: `_root_id` of earlier attempts whose tuples leave; None where there are none.
        replaced: the tuples of `replaced_roots`, for a target that `takes_back`; else None.
        is_shared: whether others may publish to the target.
    """

    publisher: Publisher
    fold: int
    added: DataFrame
    is_small: bool
    messages: DataFrame
    replaced_roots: DataFrame | None
    replaced: DataFrame | None
    is_shared: bool = False

    @property
    def note(self) -> str:
        """See `Publisher.note`."""
        return self.publisher.note(self.fold, self.is_shared)


@dataclass(frozen=True)
class Evidence:
    """The contents that a target should have, according to a store.

    Args:
        stream: the name of the stream that feeds the target.
        streams: the tables of all streams that ever fed the target, by their names; that of `stream` first.
        position: the newest fold whose tuples the target should hold.
        folded: the newest batch of the stream's component whose tuples the target should hold.
        trim: how far the streams were trimmed, or are about to be.
        counted: the newest trimming of which it is known how many tuples it deleted.
        kept: the tables with the sums of trimmed tuples of aggregates, by stream; only streams that have one.
        kept_rows: the sums of trimmed rows.
        former: each other stream -> the newest batch of its component in the newest fold of that stream that
            the target holds.
        may_be_untracked: whether the stream may have tuples of no message.
        contents: whether messages are compared by what their rows say, and not by their number alone.
        read_topics: whether the records of topics are read as well.
        topology: the topology's name, for commands that are named.
        refused: the acked roots (`root_id`) that the target must not hold, since it or another table refused
            them.
        refused_here: those of `refused` that the target has refused itself.
    """

    ledger: DeltaTable
    stream: str
    streams: Mapping[str, DeltaTable]
    position: int
    folded: int
    trim: Trim
    counted: Trim
    kept: Mapping[str, DeltaTable] = field(default_factory=dict)
    kept_rows: Kept = field(default_factory=Kept)
    former: Mapping[str, int] = field(default_factory=dict)
    may_be_untracked: bool = False
    contents: bool = True
    read_topics: bool = False
    topology: str = ""
    refused: pl.DataFrame = field(default_factory=_no_roots)
    refused_here: pl.DataFrame = field(default_factory=_no_roots)

    def batches_of(self, stream: str) -> str:
        """A SQL condition on batches of a stream: those that were folded and that no trimming has counted."""
        newest = self.folded if stream == self.stream else self.former.get(stream, 0)
        return f"(_batch > {self.counted.upto.get(component_of(stream), 0)} AND _batch <= {newest})"


NOTHING_REFUSED = pl.DataFrame(schema={"root_id": pl.Int64, "reason": pl.String})

Findings = Mapping[str, list[Finding]]  # lost, unexpected, duplicated -> what is wrong


@dataclass(frozen=True)
class Verdict:
    """The findings on the contents of a target, and how these were compared.

    Args:
        compared: how many acked messages had their rows compared by what they say.
        by_count: how many had their rows counted.
        not_compared: how many had their rows not looked at.
        why: the reasons why not all rows were compared by what they say; empty where all were.
    """

    findings: Findings
    compared: int = 0
    by_count: int = 0
    not_compared: int = 0
    why: tuple[str, ...] = ()


class Target(ABC):
    """A place to which the tuples of a stream are published, fold by fold.

    A target of a Delta table begins with `DeltaTarget` (`acker/targets/delta.py`). The table is shown, backed
    up, restored and moved by `delta_path`, `delta_table` and `moved_to`. A trimming asks for `has_roots`,
    `rows_by_key`, `takes_back` and `only_adds`. The test kit publishes to a table of its own, by `moved_to`.

    Attributes:
        takes_back: whether the target needs the tuples of a replaced attempt, to take them back.
        only_adds: whether the tuples of a replaced attempt stay in the target.
        takes_several: whether several streams of a topology may be published to one place.
        has_roots: whether each row has the root that it is of, in a column `_root_id`.
    """

    takes_back: ClassVar[bool] = False
    only_adds: ClassVar[bool] = False
    takes_several: ClassVar[bool] = False
    has_roots: ClassVar[bool] = False

    @property
    @abstractmethod
    def uri(self) -> str:
        """The place of the target. Two streams of a topology need `takes_several` to share one."""

    @property
    def delta_path(self) -> str | None:
        """Path or URI of the Delta table with the published rows; None where they are in no Delta table.

        That table is backed up, restored and moved with the store, and its rows are shown.
        """
        return None

    def delta_table(self) -> DeltaTable | None:
        """The Delta table at `delta_path`; None where there is none, or none yet."""
        return None if self.delta_path is None else open_table(self.delta_path)

    def moved_to(self, path: str) -> "Target":
        """The same kind of target on the Delta table at another path, which sends nothing to anybody else.

        It is asked of a target that has a `delta_path`.

        Raises:
            TopologyError: the target's class has no such method.
        """
        raise TopologyError(
            f"{type(self).__name__} has a delta_path and no method moved_to(path). Write one that gives the "
            "same target on the table at another path."
        )

    def rows_by_key(self) -> "ByKey | None":
        """The key and the aggregates of the target's rows; None where its rows have no key.

        By this key a trimming keeps the sums of the tuples that it deletes.
        """
        return None

    @abstractmethod
    def pinned(self) -> "Target":
        """Fix the target at its present version.

        Returns:
            The target, all of whose answers are of that version.
        """

    @abstractmethod
    def position(self, app: str) -> int:
        """Find the newest fold that a publisher has committed.

        Args:
            app: the publisher's transaction id, as `Publisher.app` has it.

        Returns:
            The number of the fold; 0 before the first.
        """

    @abstractmethod
    def violations(
        self, spark: SparkSession, stream: str, rows: DataFrame, columns: Sequence[str]
    ) -> DataFrame:
        """Find the rows of a component that the target would refuse.

        A row that broke a rule of the target would else stop the publish of a whole fold, long after its
        message was acked.

        Args:
            spark: the Spark session.
            stream: the stream that is published; rows of others stay as they are.
            rows: the rows of the component.
            columns: the user's columns of the stream.

        Returns:
            All rows. Those that the target would refuse are failures of their messages (`_kind`, `_error`).

        Raises:
            BoltError: the target would refuse every row.
        """

    @abstractmethod
    def apply(self, spark: SparkSession, changes: Changes) -> None:
        """Take a fold in, once, however often this is called.

        Args:
            spark: the Spark session.
            changes: the tuples of the fold.

        Raises:
            StoreError: the fold could not be taken in.
        """

    def refused(
        self, spark: SparkSession, changes: Changes, groups: pl.DataFrame, scratch: str
    ) -> pl.DataFrame:
        """Find the roots that the target refuses of a fold that `apply` could not take in.

        The target itself does not change.

        Args:
            spark: the Spark session.
            changes: the tuples of the fold.
            groups: the roots that the fold acked: `root_id`, and `group`, the same for those acked together.
            scratch: path or URI of a folder that the target may make, and that is deleted afterwards.

        Returns:
            `root_id` and `reason` of the roots; no rows where the fault is not that of some messages.
        """
        return NOTHING_REFUSED

    @abstractmethod
    def audit(self, evidence: Evidence) -> Verdict | Findings:
        """Compare the contents of the target with those that it should have.

        Args:
            evidence: the contents that the target should have.

        Returns:
            The verdict. Findings alone say that the target only counted.
        """

    @abstractmethod
    def published_at(self, publisher: Publisher, fold: int) -> datetime | None:
        """Find the time at which the target took a fold in.

        Args:
            publisher: the publisher of the fold.
            fold: the number of the fold.

        Returns:
            The time, in UTC; None where nobody knows it any more.
        """

    def target_id(self) -> str | None:
        """Identify the target, so that one that was made anew is told from the one before.

        Returns:
            The id of the target; None where the target is not there, and "" where nobody knows the id.
        """
        return ""

    def notes(self, stream: str | None = None) -> Iterator[Note]:
        """Read the notes of published folds, as far as the target keeps them.

        Args:
            stream: notes of publishers of streams of another name may be left out; None asks for all.

        Returns:
            The notes of all publishers, newest first.
        """
        return iter(())

    def has_rows(self) -> bool:
        """Tell whether the target holds published rows, of any publisher.

        Returns:
            True where the target holds such rows; False also where it cannot tell.
        """
        return False

    def fallen(self, publisher: Publisher) -> str:
        """Explain how the target may have come to hold less than it did.

        Args:
            publisher: the publisher whose folds are missing.

        Returns:
            Half a sentence for an error message.
        """
        return "it was restored, or an older copy of it was put back"

    def irreversible(self) -> str | None:
        """Explain why acked messages cannot be replayed, with the remedy.

        Returns:
            The explanation; None where acked messages can be replayed.
        """
        return None


def position_of(target: Target, publisher: Publisher) -> int:
    """The newest fold of a publisher that a target has taken in; 0 before the first.

    If the publisher itself has committed none, two kinds of folds count: those that its former publishers
    committed, as far as the store has them, and those before the ones that are published again.
    """
    own = target.position(publisher.app)
    if own:
        return own
    former = (min(target.position(each.app), fold) for each, fold in publisher.former)
    return max([publisher.store.base, *former])


def published_at(target: Target, publisher: Publisher, fold: int) -> datetime | None:
    """When a target took in a fold of a store, in UTC; None where nobody knows any more."""
    before = (target.published_at(each, fold) for each, newest in publisher.former if fold <= newest)
    return target.published_at(publisher, fold) or next((at for at in before if at), None)


def published_fold(snapshot: Snapshot, target: Target, stream: str) -> int:
    """The newest fold that a stream has published; 0 before the first. See `standing` as well.

    Raises:
        StoreError: the target has a newer fold than the ledger. The ledger would give the number of that fold
            to another one.
    """
    number = position_of(target, Publisher.of(snapshot.require(LEDGER), stream))
    if number > last_number(snapshot.open(LEDGER), APP):
        newest = last_number(snapshot.store.open(LEDGER), APP)  # it may have been folded since the snapshot
        if number > newest:
            raise StoreError(
                f"{target.uri} has fold {number} of {snapshot.store.path(LEDGER)}, which ends with {newest}: "
                f"that was put back. Put the newest version of {snapshot.store.path('').rstrip('/')} back. "
                f"{RECOVERY_HINT}",
                component=stream,
                table=target.uri,
            )
    return number

"""The base of Delta targets: their position is the table's own transaction number."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Self

import polars as pl
from deltalake import DeltaTable
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from acker.core.errors import BoltError, StoreError
from acker.core.quoting import sql_name
from acker.core.store.tables import UNREADABLE, last_number, open_table, query
from acker.core.stream_names import component_of
from acker.spark.delta import exact, with_nulls_of
from acker.targets.base import Changes, Note, Publisher, Target
from acker.targets.by_key import COUNT
from acker.targets.history import all_notes, notes_that_hold
from acker.targets.refusing import Search

_SETTINGS = "spark.databricks.delta"
_NEWEST_WRITER = 7
USUAL_FEATURES = frozenset(  # of tables to which Spark is known to write
    {
        *("allowColumnDefaults", "appendOnly", "changeDataFeed", "checkConstraints", "clustering"),
        *("columnMapping", "deletionVectors", "domainMetadata", "generatedColumns", "icebergCompatV1"),
        *("icebergCompatV2", "identityColumns", "inCommitTimestamp", "invariants", "rowTracking"),
        *("timestampNtz", "typeWidening", "v2Checkpoint", "vacuumProtocolCheck", "variantType"),
    }
)
_EXPIRY = "delta.setTransactionRetentionDuration"
_OWN_COLUMNS = ("_root_id", COUNT)


@dataclass(frozen=True)
class _Pin:
    """The table of a pinned target, at one version.

    Args:
        table: the table; None where there was none when the target was pinned.
    """

    table: DeltaTable | None


@dataclass(frozen=True)
class DeltaTarget(Target):
    """A Delta table, which is made with the first fold that has tuples for it.

    Args:
        path: path or URI of the table.
    """

    path: str
    _pin: _Pin | None = field(default=None, kw_only=True, repr=False, compare=False)

    @property
    def uri(self) -> str:
        """See `Target`."""
        return self.path

    @property
    def delta_path(self) -> str:
        """See `Target`."""
        return self.path

    def pinned(self) -> Self:
        """See `Target`."""
        return replace(self, _pin=_Pin(open_table(self.path)))

    def delta_table(self) -> DeltaTable | None:
        """See `Target`."""
        return open_table(self.path) if self._pin is None else self._pin.table

    def position(self, app: str) -> int:
        """See `Target`. Where Delta has forgotten the transaction number, the commits' notes tell it."""
        table = self.delta_table()
        number = last_number(table, app)
        if table is None or number:
            return number
        return max((note.fold for note in all_notes(table) if note.app == app), default=0)

    def target_id(self) -> str | None:
        """See `Target`. Delta's id of the table."""
        table = self.delta_table()
        return None if table is None else str(table.metadata().id)

    def notes(self, stream: str | None = None) -> Iterator[Note]:
        """See `Target`. Notes of commits that a restore took away are left out."""
        table = self.delta_table()
        return iter(()) if table is None else notes_that_hold(table)

    def has_rows(self) -> bool:
        """See `Target`. Published rows have columns that nobody else gives a table."""
        table = self.delta_table()
        columns = [] if table is None else [field.name for field in table.schema().fields]
        own = next((f'"{name}" IS NOT NULL' for name in _OWN_COLUMNS if name in columns), None)
        if table is None or own is None:
            return False
        try:
            return bool(query(f"SELECT 1 AS one FROM published WHERE {own} LIMIT 1", published=table))
        except StoreError as error:
            if UNREADABLE not in str(error):
                raise
            return bool(table.file_uris())  # of which nobody can say here whose they are

    def check_remembers(self, publisher: Publisher) -> None:
        """Refuse a publisher's first fold where the table is set to forget transaction numbers.

        Without the number a fold that the table once took in would seem to be the first.

        Raises:
            StoreError: the table is set so, and knows no fold of the publisher.
        """
        table = self.delta_table()
        if table and _EXPIRY in table.metadata().configuration and not self.position(publisher.app):
            raise StoreError(
                f"{self.path} has the property {_EXPIRY}, by which Delta forgets what was published "
                "there, and it would be published again. Unset it: ALTER TABLE … UNSET TBLPROPERTIES "
                f"('{_EXPIRY}').",
                component=publisher.stream,
                table=self.path,
            )

    def check_writable(self, spark: SparkSession, stream: str, table: DeltaTable) -> None:
        """Refuse, before the ack, a table to which the Delta of this Spark cannot write.

        Raises:
            BoltError: the table asks its writers for more than this Delta knows.
        """
        protocol = table.protocol()
        strange = set(protocol.writer_features or ()) - USUAL_FEATURES
        if not strange and protocol.min_writer_version <= _NEWEST_WRITER:
            return
        try:
            spark.sql(
                f"DELETE FROM delta.{sql_name(self.path)} WHERE false"
            ).collect()  # which writes nothing
        except PySparkException as error:
            if strange and "DELTA_UNSUPPORTED_FEATURES" not in str(error):
                return
            asked = ", ".join(sorted(strange)) or f"version {protocol.min_writer_version} of Delta's writers"
            raise BoltError(
                f"{self.path} asks its writers for {asked}, which the Delta of this Spark does not know: use "
                "a newer one, or publish to another table.",
                component=component_of(stream),
                table=self.path,
            ) from error

    def published_at(self, publisher: Publisher, fold: int) -> datetime | None:
        """See `Target`."""
        table, wanted = self.delta_table(), (publisher.app, fold)
        notes = all_notes(table) if table else ()
        times = [note.at for note in notes if (note.app, note.fold) == wanted]
        return times[0] if times else None

    def moved_to(self, path: str) -> Self:
        """See `Target`."""
        return replace(self, path=path, _pin=None)

    def computed(self, spark: SparkSession, changes: Changes) -> DataFrame:
        """The rows that `apply` writes, in the table's types."""
        return changes.added

    def refused(
        self, spark: SparkSession, changes: Changes, groups: pl.DataFrame, scratch: str
    ) -> pl.DataFrame:
        """See `Target`."""
        with exact(spark):
            return Search(self, spark, changes, groups, scratch).run()

    def merge(
        self,
        spark: SparkSession,
        table: DeltaTable,
        source: DataFrame,
        changes: Changes,
        sql: str,
        adds_columns: bool = False,
    ) -> None:
        """Run a MERGE as one idempotent commit.

        Args:
            table: the table, as it was opened for these changes.
            source: the rows to merge, which `sql` calls `changes`.
            sql: the SQL of the condition and of all that follows it, in which the table is `target`.
            adds_columns: whether the table gets inserted columns that it does not have yet.

        Raises:
            StoreError: the fold is not in the table afterwards.
        """
        app, fold = changes.publisher.app, changes.fold
        settings = {
            f"{_SETTINGS}.write.txnAppId": app,
            f"{_SETTINGS}.write.txnVersion": str(fold),
            f"{_SETTINGS}.commitInfo.userMetadata": changes.note,
        }
        with_nulls_of(table, source).createOrReplaceTempView("changes")
        for key, value in settings.items():
            spark.conf.set(key, value)
        try:
            evolving = "WITH SCHEMA EVOLUTION " if adds_columns else ""
            into = f"MERGE {evolving}INTO delta.{sql_name(self.path)} AS target"
            with exact(spark):
                spark.sql(f"{into} USING changes ON {sql}")
        except PySparkException:
            # Another client that merges the same fold at the same time has done the work.
            if self.position(app) < fold:
                raise
        finally:
            for key in settings:
                spark.conf.unset(key)
            spark.catalog.dropTempView("changes")
        if self.position(app) < fold:
            raise StoreError(
                f"Fold {fold} is not in {self.path} although it was merged; publish again.", table=self.path
            )

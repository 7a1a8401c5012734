"""The store of a topology: its own Delta tables and its streams, opened and made without Spark."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from deltalake import CommitProperties, DeltaTable, Schema

from acker.core.delta import (
    RECOVERY_HINT,
    REFUSED,
    RETRIES_OF_MAKING,
    last_number,
    open_table,
    said,
    unwritten,
)
from acker.core.errors import StoreError
from acker.core.schemas import SCHEMAS, properties_at


@cache
def _own_schema(table: str) -> Schema:
    return Schema.from_arrow(SCHEMAS[table].arrow())


@dataclass(frozen=True)
class Store:
    """The Delta tables of one topology: one folder each, below `<uri>/<topology>`."""

    uri: str
    topology: str

    def path(self, table: str) -> str:
        """Path or URI of a table, by its name, or of a stream as `streams/<component>`."""
        return f"{self.uri.rstrip('/')}/{self.topology}/{table}"

    def open(self, table: str, version: int | None = None) -> DeltaTable | None:
        """The table without Spark, or None where it does not exist yet.

        Raises:
            StoreError: it cannot be read, or is one of the store's own and has other columns.
        """
        found = open_table(self.path(table), version)
        if found is not None and table in SCHEMAS and found.schema() != _own_schema(table):
            raise StoreError(
                f"The columns of {found.table_uri} are not those that it was made with. "
                f"It was altered by hand; restore it to a version before that. {RECOVERY_HINT}",
                table=self.path(table),
            )
        return found

    def require(self, table: str, version: int | None = None) -> DeltaTable:
        """The table without Spark.

        Raises:
            StoreError: it does not exist.
        """
        found = self.open(table, version)
        if found is None:
            raise StoreError(
                f"There is no table {self.path(table)}. Has `acker run {self.topology}` run with this store?",
                table=self.path(table),
            )
        return found

    def create(self) -> None:
        """Create the store's own tables where they are missing.

        Raises:
            StoreError: one cannot be created.
        """
        for name, schema in SCHEMAS.items():
            if self.open(name) is not None:
                continue
            try:
                DeltaTable.create(
                    self.path(name),
                    schema.arrow(),
                    partition_by=list(schema.partition_by),
                    configuration=properties_at(self.path(name), schema.table_properties()),
                    commit_properties=CommitProperties(max_commit_retries=RETRIES_OF_MAKING),
                )
            except REFUSED as error:
                if self.open(name) is None:  # else another client was faster
                    path = self.path(name)
                    raise unwritten(
                        path, error, f"The table {path} cannot be created: {said(error)}"
                    ) from error

    def change(self, table: str, change: Callable[[DeltaTable], dict[str, Any]]) -> dict[str, Any]:
        """Rewrite a table that Spark does not write, and return what `deltalake` says of it.

        Raises:
            StoreError: it could not be rewritten; another commit may have been in the way.
        """
        try:
            return change(self.require(table))
        except REFUSED as error:
            raise unwritten(
                self.path(table),
                error,
                f"{self.path(table)} could not be rewritten: {said(error)} Run it again. {RECOVERY_HINT}",
            ) from error

    def last_number(self, table: str, app: str, version: int | None = None) -> int:
        """The newest number that was appended for `app`; 0 where there is none or no table."""
        return last_number(self.open(table, version), app)

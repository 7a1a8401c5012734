"""The format of a store: the columns and properties of its own tables, and how an older store gets them.

Each table carries its format as a property. A version of the code reads and writes one format. A new format
adds only columns to a table, which come last and are null in older rows. So a migration can be done again,
and one that was killed can be continued.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from deltalake import DeltaTable, Field, Schema

from acker.core.errors import StoreError
from acker.core.names import called
from acker.core.store.schemas import FORMAT, FORMAT_PROPERTY, SCHEMAS
from acker.core.store.tables import RECOVERY_HINT, REFUSED, open_table, sentence_of, unwritten


@dataclass(frozen=True)
class Migration:
    """The change of a table to this version's format.

    Args:
        path: of the table.
        table: name of the table.
        found: the format that the table has; 0 of a table that was written before formats had numbers.
        columns: the columns that the table lacks.
    """

    path: str
    table: str
    found: int
    columns: tuple[str, ...]

    def __str__(self) -> str:
        columns = f", with new columns {', '.join(self.columns)}" if self.columns else ""
        return f"{self.table}: format {self.found} to {FORMAT}{columns}"


def check_format(table: DeltaTable, path: str, topology: str) -> None:
    """Stop where one of a store's own tables has another format than this version of the code.

    Raises:
        StoreError: with the remedy.
    """
    found = _format_of(table)
    if found < FORMAT:
        raise StoreError(
            f"{path} was written by an older version of acker: it has format {found}, and this version "
            f"writes {FORMAT}. Stop what works on the store, and run `acker migrate {called(topology)}`.",
            table=path,
        )
    if found > FORMAT:
        raise StoreError(
            f"{path} was written by a newer version of acker: it has format {found}, and this version knows "
            f"{FORMAT}. Install the newer version here.",
            table=path,
        )


def pending_migrations(folder: str, topology: str) -> Iterator[Migration]:
    """The migrations that the tables of a store need, in their order.

    Args:
        folder: path or URI of the topology's store.

    Raises:
        StoreError: a table cannot be read, is newer, or has columns that no version gave it.
    """
    for name, schema in SCHEMAS.items():
        path = f"{folder}/{name}"
        table = open_table(path)
        if table is None:  # which is made by the next run
            continue
        found, own = _format_of(table), Schema.from_arrow(schema.arrow())
        if found >= FORMAT:
            check_format(table, path, topology)
            continue
        known = table.schema().fields
        if own.fields[: len(known)] != known:
            raise StoreError(
                f"The columns of {path} are not those that it was made with. It was altered by hand; restore "
                f"it to a version before that, and migrate then. {RECOVERY_HINT}",
                table=path,
            )
        yield Migration(path, name, found, tuple(each.name for each in own.fields[len(known) :]))


def migrate(folder: str, topology: str) -> list[Migration]:
    """Migrate the tables of a store to this version's format, once, and return the migrations that were done.

    Args:
        folder: path or URI of the topology's store.

    Raises:
        StoreError: a table cannot be read or written, is newer, or was altered by hand.
    """
    done = [*pending_migrations(folder, topology)]
    for each in done:
        try:
            _migrate(each)
        except REFUSED as error:
            if each.table in {left.table for left in pending_migrations(folder, topology)}:
                again = f"Run `acker migrate {called(topology)}` again."
                otherwise = f"{each.path} could not be migrated: {sentence_of(error)} {again}"
                raise unwritten(each.path, error, otherwise) from error
    return done


def _migrate(lacking: Migration) -> None:
    table = DeltaTable(lacking.path)
    if lacking.columns:
        table.alter.add_columns([_field(lacking.table, column) for column in lacking.columns])
    # Last, since it says that all is there.
    table.alter.set_table_properties({FORMAT_PROPERTY: str(FORMAT)}, raise_if_not_exists=False)


def _field(table: str, column: str) -> Field:
    return next(each for each in Schema.from_arrow(SCHEMAS[table].arrow()).fields if each.name == column)


def _format_of(table: DeltaTable) -> int:
    return int(table.metadata().configuration.get(FORMAT_PROPERTY, "0"))

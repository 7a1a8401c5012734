"""The first rows of a published table, without Spark."""

from dataclasses import dataclass

from acker.core.errors import StoreError, TopologyError
from acker.core.names import called
from acker.core.store.tables import query, query_table
from acker.reports.rows import Value, plain_rows
from acker.topology.topology import Topology


@dataclass(frozen=True)
class PublishedRows:
    """Some rows of a published table.

    Args:
        stream: the stream that is published there.
        to: path or URI of the table.
        columns: the user's columns.
        rows: the values of each row, in the order of the columns.
        total: how many rows it has, of which `rows` are some.
    """

    stream: str
    to: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Value, ...], ...]
    total: int


def published_rows(topology: Topology, stream: str, limit: int) -> PublishedRows:
    """Some rows of a published table, with the user's columns; of aggregates those with the lowest keys.

    Raises:
        TopologyError: the stream is not published, or to no Delta table.
        StoreError: the table is not there yet, or cannot be read.
    """
    target = topology.publication(stream).target
    if target.delta_path is None:
        raise TopologyError(f"{stream} is published to {target.uri}, which is no Delta table; look there.")
    table = target.delta_table()
    if table is None:
        typed = called(topology.name)
        raise StoreError(
            f"There is no table {target.uri} yet: nothing was published to it. Call `acker run {typed}`, and "
            f"`acker failures {typed}` if nothing comes of it.",
            table=target.uri,
        )
    columns = [field.name for field in table.schema().fields if not field.name.startswith("_")]
    by_key = target.rows_by_key()
    keys = by_key.keys if by_key is not None else ()
    order = f"ORDER BY {', '.join(map(_quoted, keys))} " if keys else ""
    selected = f"SELECT {', '.join(map(_quoted, columns))} FROM published {order}LIMIT {limit}"
    rows = plain_rows(query_table(selected, published=table))
    (counted,) = query("SELECT count(*) AS n FROM published", published=table)
    values = tuple(tuple(row[column] for column in columns) for row in rows)
    return PublishedRows(stream, target.uri, tuple(columns), values, counted["n"])


def _quoted(name: str) -> str:
    """A column's name for DataFusion."""
    return '"' + name.replace('"', '""') + '"'

"""What others do to a published table in a random run: rules, columns, rows edited, tables that go."""

from pathlib import Path
from typing import Any

from deltalake import DeltaTable, Field

from acker.core.store.tables import open_table, query
from tests.faults.shapes import PARTITION

MOST_KEY = 1_000_000  # more than any run has


def refuse_key(path: str, key: int) -> bool:
    """Let a table refuse what has a key. False where it is not there yet."""
    table = open_table(path)
    if table is None:
        return False
    table.alter.add_constraint({f"no_{key}": f"key <> {key}"})
    return True


def alter(path: str, number: int) -> str:
    """Change a table so that nothing is refused; what was done, empty where it is not there yet."""
    table = open_table(path)
    if table is None:
        return ""
    rules = [name for name in table.metadata().configuration if name.startswith("delta.constraints.usual_")]
    if rules:
        table.alter.drop_constraint(rules[0].removeprefix("delta.constraints."))
        return "rule dropped"
    if number % 2:
        table.alter.add_constraint({f"usual_{number}": f"key < {MOST_KEY}"})
        return "rule added"
    table.alter.add_columns([Field(f"note_{number}", "string", nullable=True)])
    return "column added"


def some_row(path: str) -> dict[str, Any] | None:
    """A row of some message's, or of an aggregate; None where there is none."""
    table = open_table(path)
    rows = query("SELECT * FROM t", t=table) if table else []
    mine = [row for row in rows if row.get("_root_id", 0) is not None]
    return min(mine, key=lambda row: (row["key"], row.get("v", 0)), default=None)


def edit(path: str, row: dict[str, Any], back: bool = False) -> None:
    """Give a row a value that no bolt makes, or its own again."""
    name = "v" if "v" in row else "sum"
    values = row[name], -1 - int(row[name])
    old, new = values[::-1] if back else values
    which = f"who = '{row['who']}'" if "who" in row else f"key = {row['key']}"
    done = DeltaTable(path).update({name: str(new)}, predicate=f"{which} AND {name} = {old}")
    assert done["num_updated_rows"], done


def named(row: dict[str, Any]) -> set[str]:
    """By which of these names an audit may tell of a row of messages."""
    messages = (each.split("/") for each in row["who"].split("+"))
    return {f"{spout}:{PARTITION}:{offset}" for spout, offset, _ in messages}


def take_away(path: str) -> bool:
    """Let a table be gone. False where it is not there."""
    if not Path(path).exists():
        return False
    Path(path).rename(f"{path}.away")
    return True


def put_back(path: str) -> None:
    """Let it be there again."""
    Path(f"{path}.away").rename(path)

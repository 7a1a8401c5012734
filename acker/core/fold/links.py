"""Which roots are linked, over any number of others. Polars frames in and out."""

import polars as pl


def connected(links: pl.DataFrame) -> pl.DataFrame:
    """Every root of some links, and as `joined` the smallest that it is linked to over any number of them.

    Each root hooks to the smallest of its neighbours, and each tree of hooks becomes one root, its smallest.
    What is linked still goes round again. Root ids are random, so the rounds are few, however long a chain.

    Args:
        links: pairs of roots, columns `root_id` and `joined`.
    """
    ends = pl.concat([links["root_id"], links["joined"]]).unique().sort()
    found = pl.DataFrame({"root_id": ends, "joined": ends})
    while not links.is_empty():
        pairs = pl.concat([links, links.select(root_id="joined", joined="root_id")])
        hooks = pairs.group_by("root_id").agg(pl.col("joined").min())
        tops = _tops(hooks.with_columns(joined=pl.min_horizontal("root_id", "joined")))
        found = _replaced(found, "joined", tops)
        links = _replaced(_replaced(links, "root_id", tops), "joined", tops)
        links = links.filter(pl.col("root_id") != pl.col("joined")).unique()
    return found


def _tops(hooks: pl.DataFrame) -> pl.DataFrame:
    """Each root with the one at the end of its hooks, to which that one is hooked itself."""
    while True:
        further = _replaced(hooks, "joined", hooks)
        if further.equals(hooks):
            return hooks
        hooks = further


def _replaced(rows: pl.DataFrame, column: str, labels: pl.DataFrame) -> pl.DataFrame:
    """`rows` in their order, with the label of each root of a column, or the root where it has none."""
    named = labels.select(pl.col("root_id").alias(column), label="joined")
    found = rows.join(named, on=column, how="left", maintain_order="left")
    return found.with_columns(pl.coalesce("label", column).alias(column)).select(rows.columns)

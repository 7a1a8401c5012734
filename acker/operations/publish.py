"""Publishing: the terminal tuples of acked messages, fold by fold, oldest first, each fold once.

A target's position is the target's own transaction number, the fold, so a publish that is repeated or
interrupted changes nothing. What an earlier acked attempt of a message had published leaves in the
commit that brings the later one.
"""

from dataclasses import dataclass

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from acker.batches.run import Run
from acker.core.delta import last_number, open_table, query
from acker.core.errors import StoreError
from acker.core.integrity import refuse_missing
from acker.core.ledger import newest_fold
from acker.core.quoting import sql_name
from acker.core.schemas import LEDGER, component_of, stream
from acker.core.streams import untracked
from acker.journal.downstream import downstream_batches
from acker.spark.delta import append, read
from acker.targets.publisher import COUNT, app_id, commit_note, position
from acker.topology.topology import Publication


@dataclass(frozen=True)
class Acked:
    """What one fold acked."""

    fold: int
    emissions: list[tuple[str, int]]  # (spout, batch) that emitted the roots
    replaced: list[tuple[str, int]]  # the same of the roots that they replace
    untracked: list[
        int
    ]  # batches of the stream that the fold was the first to see, with tuples of no message


def publish(run: Run) -> int:
    """Bring every published table up to the newest fold. Returns how many commits that took."""
    return sum(publish_table(run, publication) for publication in run.topology.publications.values())


def publish_table(run: Run, publication: Publication) -> int:
    """Bring one published table up to the newest fold. Returns how many commits that took."""
    newest = newest_fold(run.store)
    if newest is None or run.store.open(stream(publication.component)) is None:
        return 0  # nothing was folded, or nothing emitted that could be published
    folds = acked_folds(run, publication, position(run.store, publication), newest.number)
    for acked in folds:
        _publish_fold(run, publication, acked)
        run.tell("published", publication.component, acked.fold)
    return len(folds)


def acked_folds(run: Run, publication: Publication, after: int, upto: int) -> list[Acked]:
    """Folds in (after, upto] that have something to publish."""
    if after >= upto:
        return []
    rows = query(
        f"""
        WITH acked AS (SELECT fold, spout, batch, replaces FROM ledger
            WHERE live_in IS NULL AND state = 'acked' AND fold > {after} AND fold <= {upto}),
        replaced AS (SELECT a.fold, old.spout, old.batch FROM acked a JOIN ledger old
            ON old.root_id = a.replaces AND old.state = 'acked' AND old.live_in IS NULL)
        SELECT DISTINCT fold, spout, batch, false AS old FROM acked
        UNION ALL SELECT DISTINCT fold, spout, batch, true AS old FROM replaced
        """
        if _some_replace(run, after, upto)
        else f"""SELECT DISTINCT fold, spout, batch, false AS old FROM ledger
            WHERE live_in IS NULL AND state = 'acked' AND fold > {after} AND fold <= {upto}""",
        ledger=run.store.require(LEDGER),
    )
    untracked = untracked_batches(run, publication.component, after, upto)
    found = []
    for fold in sorted({row["fold"] for row in rows} | set(untracked)):
        mine = [row for row in rows if row["fold"] == fold]
        found.append(
            Acked(
                fold,
                [(row["spout"], row["batch"]) for row in mine if not row["old"]],
                [(row["spout"], row["batch"]) for row in mine if row["old"]],
                untracked.get(fold, []),
            )
        )
    return found


def untracked_batches(run: Run, name: str, after: int, upto: int) -> dict[int, list[int]]:
    """Fold in (after, upto] -> the batches of a stream that it saw first, and that have untracked tuples."""
    if not run.topology.may_be_untracked(name) or run.store.open(stream(name)) is None:
        return {}
    rows = query(
        "SELECT fold, logged FROM ledger WHERE live_in IS NULL AND root_id IS NULL "
        f"AND fold >= {after} AND fold <= {upto} ORDER BY fold",
        ledger=run.store.require(LEDGER),
    )
    logged = {row["fold"]: dict(row["logged"]).get(component_of(name), 0) for row in rows}
    newest = logged.pop(after, 0)
    there = untracked(run.store, name, newest, max(logged.values(), default=0))
    found: dict[int, list[int]] = {}
    for fold, number in logged.items():
        batches = sorted(batch for batch in there if newest < batch <= number)
        if batches:
            found[fold] = batches
        newest = number
    return found


def _some_replace(run: Run, after: int, upto: int) -> bool:
    """Whether an acked row replaces an earlier one; only then is history looked at."""
    (row,) = query(
        "SELECT count(replaces) AS n FROM ledger WHERE live_in IS NULL AND state = 'acked' "
        f"AND fold > {after} AND fold <= {upto}",
        ledger=run.store.require(LEDGER),
    )
    return bool(row["n"])


def _publish_fold(run: Run, publication: Publication, acked: Acked) -> None:
    settled = read(run.spark, run.store.path(LEDGER)).where(
        (F.col("fold") == acked.fold) & F.col("live_in").isNull() & (F.col("state") == "acked")
    )
    tuples = _tuples_of(run, publication, acked.emissions, settled.select(F.col("root_id").alias("_root_id")))
    if acked.untracked:
        refuse_missing(run.store, component_of(publication.component), acked.untracked)
        others = run.tuples(publication.component, acked.untracked).where("_root_id IS NULL")
        columns = run.columns(others, publication.component)
        tuples = tuples.unionByName(others.select("_root_id", *map(sql_name, columns)))
    app = app_id(run.store, publication)
    old = settled.where(F.col("replaces").isNotNull()).select(F.col("replaces").alias("_root_id"))
    if publication.by:
        replaced = _tuples_of(run, publication, acked.replaced, old) if acked.replaced else None
        _add_to_aggregates(run, publication, tuples, replaced, app, acked.fold)
    elif acked.replaced and open_table(publication.to) is not None:
        _replace_rows(run, publication, tuples, old, app, acked.fold)
    else:
        note = commit_note(run.store, publication, acked.fold)
        append(tuples, publication.to, app, acked.fold, {"mergeSchema": "true", "userMetadata": note})


def _tuples_of(
    run: Run, publication: Publication, emissions: list[tuple[str, int]], roots: DataFrame
) -> DataFrame:
    component = component_of(publication.component)
    batches = downstream_batches(run.journal, emissions).get(component, [])
    refuse_missing(run.store, component, batches)
    tuples = run.tuples(publication.component, batches)
    columns = run.columns(tuples, publication.component)
    return tuples.select("_root_id", *map(sql_name, columns)).join(roots, "_root_id", "left_semi")


def _merge(run: Run, publication: Publication, source: DataFrame, app: str, fold: int, sql: str) -> None:
    """Run a MERGE into the target as one idempotent commit."""
    settings = {
        "spark.databricks.delta.write.txnAppId": app,
        "spark.databricks.delta.write.txnVersion": str(fold),
        "spark.databricks.delta.commitInfo.userMetadata": commit_note(run.store, publication, fold),
    }
    source.createOrReplaceTempView("changes")
    for key, value in settings.items():
        run.spark.conf.set(key, value)
    try:
        run.spark.sql(f"MERGE INTO delta.{sql_name(publication.to)} AS target USING changes ON {sql}")
    except PySparkException:
        # Another client that merges the same fold at the same time has done the work.
        if last_number(open_table(publication.to), app) < fold:
            raise
    finally:
        for key in settings:
            run.spark.conf.unset(key)
        run.spark.catalog.dropTempView("changes")
    if last_number(open_table(publication.to), app) < fold:
        raise StoreError(f"Fold {fold} is not in {publication.to} although it was merged; publish again.")


def _replace_rows(
    run: Run, publication: Publication, tuples: DataFrame, old: DataFrame, app: str, fold: int
) -> None:
    columns = tuples.columns
    source = tuples.withColumn("_delete", F.lit(None).cast("bigint")).unionByName(
        old.select(F.col("_root_id").alias("_delete")), allowMissingColumns=True
    )
    names = ", ".join(sql_name(column) for column in columns)
    values = ", ".join(f"changes.{sql_name(column)}" for column in columns)
    sql = (
        "target._root_id = changes._delete WHEN MATCHED THEN DELETE "
        f"WHEN NOT MATCHED AND changes._delete IS NULL THEN INSERT ({names}) VALUES ({values})"
    )
    _merge(run, publication, source, app, fold, sql)


def _add_to_aggregates(
    run: Run,
    publication: Publication,
    tuples: DataFrame,
    replaced: DataFrame | None,
    app: str,
    fold: int,
) -> None:
    for aggregate in publication.aggregates.values():
        aggregate.check(dict(tuples.dtypes))
    signed = tuples.withColumn("_sign", F.lit(1))
    if replaced is not None:
        signed = signed.unionByName(replaced.withColumn("_sign", F.lit(-1)), allowMissingColumns=True)
    sign = F.col("_sign")
    changes = signed.groupBy(*map(sql_name, publication.by)).agg(
        *[aggregate.of(sign).alias(column) for column, aggregate in publication.aggregates.items()],
        F.sum(sign).cast("bigint").alias(COUNT),
    )
    if open_table(publication.to) is None:
        append(
            changes, publication.to, app, fold, {"userMetadata": commit_note(run.store, publication, fold)}
        )
        return
    keys = " AND ".join(f"target.{key} <=> changes.{key}" for key in map(sql_name, publication.by))
    kept = [
        f"{column} = {aggregate.merge(f'target.{column}', f'changes.{column}')}"
        for column, aggregate in zip(
            map(sql_name, publication.aggregates), publication.aggregates.values(), strict=True
        )
    ]
    kept.append(f"{COUNT} = target.{COUNT} + changes.{COUNT}")
    sql = (
        f"{keys} WHEN MATCHED AND target.{COUNT} + changes.{COUNT} = 0 THEN DELETE "
        f"WHEN MATCHED THEN UPDATE SET {', '.join(kept)} "
        f"WHEN NOT MATCHED AND changes.{COUNT} > 0 THEN INSERT *"
    )
    _merge(run, publication, changes, app, fold, sql)


def passed(run: Run) -> int:
    """The newest fold up to which every publisher has published all that was acked."""
    newest = newest_fold(run.store)
    if newest is None:
        return 0
    upto = newest.number
    for publication in run.topology.publications.values():
        if run.store.open(stream(publication.component)) is None:
            continue  # it has emitted nothing yet
        waiting = acked_folds(run, publication, position(run.store, publication), newest.number)
        if waiting:
            upto = min(upto, waiting[0].fold - 1)
    return upto

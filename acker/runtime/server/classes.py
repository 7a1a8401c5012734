"""The Java classes of a Spark server, kept in a file by a server that has done some work.

Before its first job is done, a server reads, checks and links some 20,000 classes. That takes a third of the
time up to the job's end. Java can keep the classes in a file for class data sharing, from which a later
process takes them. That process checks that it is the same Java with the same jars. If not, it reads the
classes from the jars.
"""

import sys
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from pyspark.sql import SparkSession

from acker.runtime.server import process as server
from acker.runtime.server.jars import locked
from acker.runtime.server.sessions import session
from acker.runtime.settings import LOOPBACK, Settings


def keep_classes(settings: Settings) -> Path:
    """The file of the classes. Where it does not exist yet, a server is started that makes it.

    Raises:
        ServerError: the server does not start, or the file cannot be kept.
    """
    kept = server.kept_classes(settings)
    if kept.exists():
        return kept
    with locked(kept.with_suffix(".lock"), ""):
        if not kept.exists():  # else another process has made it meanwhile
            print("Keeping Java's classes …", file=sys.stderr)
            _keep(settings, kept)
    return kept


def _keep(settings: Settings, kept: Path) -> None:
    draft = kept.with_suffix(".new")
    try:
        _make(settings, draft)
        others = [*kept.parent.glob("classes-*.jsa")]  # of another Java, or of other jars
        draft.replace(kept)
        for other in others:
            other.unlink()
    finally:
        draft.unlink(missing_ok=True)


def _make(settings: Settings, draft: Path) -> None:
    draft.unlink(missing_ok=True)  # of a process that was killed
    with TemporaryDirectory(prefix="acker-classes-") as folder:
        alone = replace(settings, home=Path(folder), remote=None, token=None, server_address=LOOPBACK)
        started = server.start(alone, owned=True, keep=draft)
        try:
            with session(alone) as spark:
                _work(spark, Path(folder) / "table")
            server.stop_once_kept(alone, started)
        finally:
            server.stop(alone)


def _work(spark: SparkSession, table: Path) -> None:
    """Do the work of most topologies in Spark: read files, run Python, write to Delta tables, change them."""
    source = str(table.with_name("source"))
    spark.range(4).selectExpr("id", "cast(id AS string) AS text").write.json(source)
    rows = spark.read.schema("id bigint, text string").json(source)
    rows = rows.mapInArrow(lambda batches: batches, rows.schema)
    for _ in range(2):
        rows.repartition("text").write.format("delta").mode("append").save(str(table))
    found = spark.read.format("delta").load(str(table))
    found.join(rows.select("id"), "id").groupBy("text").count().collect()
    rows.createOrReplaceTempView("rows")
    spark.sql(
        f"MERGE INTO delta.`{table}` t USING rows ON t.id = rows.id AND t.id = -1 WHEN MATCHED THEN DELETE"
    )

"""Components whose batches are searched where Spark raises: messages at fault are left out, and fail.

The search itself is that of `bad_rows`.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from acker.components.anchors import FOREIGN_ANCHOR
from acker.components.bad_parts import Frames, without
from acker.components.bad_rows import bad_roots
from acker.components.base import BadRows, Component, Work
from acker.components.raising import ENDED, error_of, hides_cause, row_error
from acker.core.errors import BoltError
from acker.core.events import Kind
from acker.core.snapshot.inputs import Replay, Spans
from acker.core.snapshot.planned import Batch
from acker.core.stream_names import component_of


def found_in(
    component: Component,
    work: Work,
    inputs: Frames,
    rows_of: Callable[[Work, Frames], DataFrame],
    error: PySparkException,
) -> BadRows:
    """The messages of a component's batch that make it raise, and why each does.

    Args:
        inputs: the batch's tuples without those of messages that are known to be bad, with `_root_id`.
        rows_of: the function that makes the component's rows of these tuples.
        error: the error that the write of these rows raised.

    Raises:
        BoltError: so many messages make the batch raise that the component is taken to be at fault, or a row
            has an anchor that is none of the batch's.
        PySparkException: no message is at fault.
    """
    made_of = partial(rows_of, work)
    cause = error_of(made_of(inputs)) if hides_cause(error) else error
    if cause is not None and FOREIGN_ANCHOR in str(cause):
        raise BoltError(f"Bolt {component.name} {FOREIGN_ANCHOR}.", component=component.name) from cause
    if cause is None or row_error(cause) is None:
        raise cause or error from None
    work.on_search()
    # Of tuples that raise where they meet there may be more, which those found have kept from sight.
    kind = "Spout" if component.is_spout else "Bolt"
    bad = bad_roots(component.name, inputs, made_of, cause, _is_again(work, work.batch), kind)
    watched = partial(rows_of, replace(work, is_watched=True))
    return {root: _told(inputs, watched, root) if why == ENDED else why for root, why in bad.items()}


def _told(inputs: Frames, watched: Callable[[Frames], DataFrame], root: int) -> str:
    """Why a message fails that ends its worker, with the exit code if that can be told."""
    mine = {name: frame.where(F.col("_root_id") == root) for name, frame in inputs.items()}
    raised = error_of(watched(mine), tries=2)
    text = (raised and row_error(raised)) or ENDED
    return text[text.find(ENDED) :] if ENDED in text else ENDED


def others(inputs: Frames, bad: BadRows) -> Frames:
    """The tuples of messages that are not bad."""
    return {name: without(frame, list(bad)) for name, frame in inputs.items()} if bad else inputs


def failed(spark: SparkSession, bad: BadRows) -> DataFrame:
    """Rows that fail bad messages."""
    roots, reasons = pa.array(bad, pa.int64()), pa.array(bad.values(), pa.string())
    rows = spark.createDataFrame(pa.table({"_root_id": roots, "_error": reasons}))
    return rows.select("_root_id", F.lit(Kind.FAIL.value).alias("_kind"), "_error")


def _is_again(work: Work, batch: Batch) -> bool:
    """Whether a batch comes of replays alone, so that all of its messages have failed before."""
    if not isinstance(batch.input, Spans):
        return isinstance(batch.input, Replay)
    taken = work.journal.inputs(batch).items()
    return all(
        _is_again(work, work.journal.read(component_of(stream), number))
        for stream, numbers in taken
        for number in numbers
    )

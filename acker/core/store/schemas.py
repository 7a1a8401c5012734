"""Columns and table properties of the store's own tables. Their page is `docs/reference/tables.md`."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import pyarrow as pa

from acker.core.stream_names import component_of, further_of

BATCHES = "batches"
EVENTS = "events"
LEDGER = "ledger"
REPLAY_REQUESTS = "replay_requests"
REPLAY_STEPS = "replay_steps"
REPLAYS = "replays"
TRIMS = "trims"
HOLDS = "holds"
ACKNOWLEDGEMENTS = "acknowledgements"
PUBLISHERS = "publishers"
REFUSALS = "refusals"
UPKEEP = "upkeep"

FORMAT = 1  # of the tables below; raised with each change of their columns (`acker/core/store/formats.py`)
FORMAT_PROPERTY = "acker.format"

# Of every table of the store. A checkpoint every 10 commits, Delta's default, costs more than it saves. Each
# commit lists the log, and nobody reads an old version: of a cycle a minute, 30 days, the default, would be
# 200,000 files, and seconds for each commit. What was removed must not be remembered for longer than that.
LOG_PROPERTIES = {
    "delta.checkpointInterval": "100",
    "delta.logRetentionDuration": "interval 1 days",
    "delta.deletedFileRetentionDuration": "interval 1 days",
}

# Of tables on an object store. Who opens one asks for each commit since the checkpoint, one after the other.
_FAR_PROPERTIES = {"delta.checkpointInterval": "10"}

_ARROW_TYPES = {
    "string": pa.string(),
    "bigint": pa.int64(),
    "int": pa.int32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "array<string>": pa.list_(pa.string()),
    "map<string,bigint>": pa.map_(pa.string(), pa.int64()),
}
_COLUMN = re.compile(r"`?(\w+)`? ([a-z]+(?:<[^>]*>)?)(?:,|$)")


@dataclass(frozen=True)
class TableSchema:
    """The schema of one table: its columns as DDL, and the settings that Delta gets for it."""

    columns: str
    stats_columns: str  # that file skipping rests on
    partition_by: tuple[str, ...] = ()
    properties: dict[str, str] = field(default_factory=dict)

    def table_properties(self) -> dict[str, str]:
        """Delta's table properties."""
        own = {FORMAT_PROPERTY: str(FORMAT), "delta.dataSkippingStatsColumns": self.stats_columns}
        return {**LOG_PROPERTIES, **own, **self.properties}

    def arrow(self) -> pa.Schema:
        """The columns for clients without Spark."""
        return pa.schema([(name, _ARROW_TYPES[kind]) for name, kind in _COLUMN.findall(self.columns)])


def properties_at(path: str, properties: Mapping[str, str]) -> dict[str, str]:
    """Table properties for the place where a table lies, on a disk or on an object store."""
    return {**properties, **(_FAR_PROPERTIES if is_object_store(path) else {})}


def is_object_store(path: str) -> bool:
    """Whether a table lies on an object store, where each request takes its time."""
    return urlsplit(path).scheme not in ("", "file")


SCHEMAS = {
    BATCHES: TableSchema(
        columns="""
            component string, batch bigint, kind string, input string, edges array<string>,
            planned_at timestamp, run_id string""",
        stats_columns="component,batch",
    ),
    EVENTS: TableSchema(
        columns="""
            root_id bigint, kind string, ack_val bigint, emitted bigint, consumed bigint,
            spout string, source_partition string, source_offset bigint, attempt int, replaces bigint,
            joined bigint, component string, batch bigint, reason string, logged_at timestamp""",
        stats_columns="component,batch,kind",
    ),
    LEDGER: TableSchema(
        columns="""
            fold bigint, live_in bigint, events_version bigint, root_id bigint,
            spout string, source_partition string, source_offset bigint, attempt int,
            state string, ack_val bigint, outstanding bigint, reason string, component string,
            batch bigint, turn bigint, replaces bigint, joined bigint,
            emitted_at timestamp, retry_at timestamp, settled_at timestamp, folded_at timestamp,
            events bigint, `window` bigint, logged map<string,bigint>""",
        stats_columns="fold",
        # Live rows lie in a partition of their own fold and settled rows together in the null one, so
        # reading the newest live rows never touches history, and history compacts.
        partition_by=("live_in",),
    ),
    REPLAY_REQUESTS: TableSchema(
        columns="""
            request_id string, requested_by string, requested_at timestamp, why string,
            selection string, matched bigint""",
        stats_columns="requested_at",
    ),
    REPLAY_STEPS: TableSchema(
        columns="""
            request_id string, plan string, step string, done_by string, done_at timestamp, told string""",
        stats_columns="done_at",
    ),
    REPLAYS: TableSchema(
        columns="""
            plan string, request_id string, spout string, source_partition string, source_offset bigint,
            attempt int, replaces bigint""",
        stats_columns="plan",
    ),
    TRIMS: TableSchema(
        columns="""
            trim bigint, upto map<string,bigint>, tuples map<string,bigint>, trimmed_at timestamp""",
        stats_columns="trim",
    ),
    HOLDS: TableSchema(
        columns="""
            component string, batch bigint, tries bigint, reason string, held_at timestamp,
            tried_at timestamp, retry_at timestamp""",
        stats_columns="component,batch",
    ),
    ACKNOWLEDGEMENTS: TableSchema(
        columns="""
            fold bigint, acknowledged_by string, acknowledged_at timestamp, why string""",
        stats_columns="fold",
    ),
    PUBLISHERS: TableSchema(
        columns="""
            stream string, target string, target_id string, publisher string, fold bigint, why string,
            met_at timestamp""",
        stats_columns="stream,fold",
    ),
    REFUSALS: TableSchema(
        columns="""
            refusal bigint, stream string, target string, fold bigint, root_id bigint,
            spout string, source_partition string, source_offset bigint, attempt int,
            batch bigint, joined bigint, emitted_at timestamp, reason string, refused_at timestamp""",
        stats_columns="refusal",
    ),
    UPKEEP: TableSchema(
        columns="""
            step string, ended_at timestamp, fault string""",
        stats_columns="ended_at",
    ),
}


def stream(name: str) -> str:
    """The name of the table that holds a stream.

    Args:
        name: that of a component, or `component.stream` for a further stream of it. All streams of a
            component lie in one table, since all tuples of a batch must become visible in one commit.
    """
    return f"streams/{component_of(name)}"


def of_stream(name: str, columns: Collection[str]) -> str:
    """A SQL condition on the rows of a stream among those of its component, whose table has `columns`."""
    if "_stream" not in columns:
        return "true"
    further = further_of(name)
    return f"_stream = '{further}'" if further else "_stream IS NULL"


def is_tuple(name: str, columns: Collection[str]) -> str:
    """A SQL condition on the tuples of a stream among the rows of its component; see `of_stream`."""
    return f"_kind IS NULL AND {of_stream(name, columns)}"


# Columns of every stream, before the user's own. `_kind` is null on a tuple that was emitted; else the
# row reports what became of an input: `fail` with `_error`, `held` with `_held`, `reset`, or `lost` on a
# spout's stream. `_root_id` is null on a tuple that is not tracked. Three columns are there only where they
# are needed: `_root_ids` of a tuple that has several roots, of which `_root_id` is the smallest; `_stream`,
# the name of one of several streams; `_held`, where a tuple lies that a rich bolt holds back.
STREAM_COLUMNS = ("_root_id", "_batch", "_kind", "_error")
HELD = "held"
SPOUT_COLUMNS = ("_source_partition", "_source_offset", "_attempt", "_replaces")
STREAM_PROPERTIES = {**LOG_PROPERTIES, "delta.dataSkippingStatsColumns": "_batch"}

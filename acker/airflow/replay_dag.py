"""`<topology>.replay`: emits messages again that a person chooses in a form."""

from typing import Any

from airflow.sdk import DAG, Param

from acker.airflow.requested import requested
from acker.airflow.wiring import SETTINGS, dag_of
from acker.core.events import SELECTABLE
from acker.runtime.manifest import Manifest

STATES = [state.value for state in SELECTABLE]

DOC = """\
Emits messages of `{name}` again that a person chooses: trigger it and fill in the form. Messages in flight
are left alone. Of acked messages the published rows are replaced once the new attempt is acked. What is due
is emitted by `{name}.retry`.

What the form selects is recorded by the task `select`, and just that is emitted, whatever matches later. The
log of `select` lists the first messages. A dry run records and emits nothing.

A replay of more than {limit:,} messages waits until another user approves it, and is rejected if nobody
answers in {hours} hours. What one user has asked for within a day, and what is open of it, counts together.
Who asked for what and why is kept in the table `replay_requests`, and who approved it in `replay_steps`.

**When a task fails** try it again: what was planned is finished, and no attempt is emitted twice.
"""


def build(manifest: Manifest) -> DAG:
    """The DAG of one topology."""
    doc = DOC.format(name=manifest.name, limit=SETTINGS.approval_limit, hours=SETTINGS.approval_hours)
    # One run may wait for a person while others go on; they emit one after the other.
    with dag_of(manifest, "replay", None, doc, params=form(manifest), max_active_runs=16) as dag:
        requested(
            manifest,
            _filled_in(manifest),
            "Records what the form selects, and asks for approval if it is much. A dry run only counts.",
        )
    return dag


def form(manifest: Manifest) -> dict[str, Param]:
    """The fields of the trigger form; Airflow checks each by its schema."""
    spouts = [spout.name for spout in manifest.spouts]
    when: dict[str, Any] = {"type": ["null", "string"], "format": "date-time"}
    return {
        "states": Param(
            None,
            type="array",
            items={"type": "string", "enum": STATES},
            minItems=1,
            examples=STATES,
            description="Choose by each message's newest state.",
        ),
        "spout": Param(
            None,
            type=["null", "string"],
            enum=[None, *spouts],
            values_display={"null": "any"},
            description="Only this spout's.",
        ),
        "positions": Param(
            None,
            type=["null", "array"],
            items={"type": "string", "pattern": "^.+:-?[0-9]+$"},
            description="Only these of the chosen spout, each PARTITION:OFFSET, one a line: argparse.py:882.",
        ),
        "partition": Param(
            None,
            type=["null", "string"],
            description="Only partitions of this pattern: * is any text, ? one character. 2026-01-*",
        ),
        "component": Param(
            None,
            type=["null", "string"],
            enum=[None, *(component.name for component in manifest.components)],
            values_display={"null": "any"},
            description="Only those whose failure was in this component.",
        ),
        "since": Param(None, **when, description="Only those emitted at this time or later."),
        "until": Param(None, **when, description="Only those emitted at this time or earlier."),
        "reason": Param(None, type=["null", "string"], description="Only those whose reason contains this."),
        "where": Param(
            None,
            type=["null", "string"],
            description="Only those whose own columns fulfil this SQL condition: day = '2026-01-31'.",
        ),
        "limit": Param(None, type=["null", "integer"], minimum=1, description="At most so many messages."),
        "why": Param(None, type=["null", "string"], maxLength=1000, description="Kept in replay_requests."),
        "dry_run": Param(
            False, type="boolean", description="Emit nothing; count and log what would be replayed."
        ),
    }


def _filled_in(manifest: Manifest) -> Any:
    """What gives a run's form, of which each field is known."""

    def fields(context: Any) -> Any:
        from acker.operations.fields import check_known

        check_known(context["params"], form(manifest))
        return context["params"]

    return fields

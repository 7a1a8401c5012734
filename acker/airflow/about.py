"""Descriptions of a topology's DAGs on Airflow's pages.

`docs/reference/airflow.md` has the description of each DAG in one line as well.
"""

from dataclasses import dataclass
from typing import Any

from acker.runtime.manifest import Manifest
from acker.runtime.settings import Settings


@dataclass(frozen=True)
class About:
    """The description of a kind of DAG.

    Args:
        line: the description in the list of DAGs.
        doc: the description on the DAG's own page, in Markdown. {name} is the topology's name, {doc} its
            docstring, {settings} the deployment's settings. {day} says which messages are of a day, and
            {reasons} how long reasons of failures are kept.
    """

    line: str
    doc: str


ABOUT = {
    "run": About(
        "Runs the spouts, the bolts, and publishes what is complete.",
        """\
{doc}

Runs every component once over what there is: each task takes up the batch that an earlier run left, or
plans the next. A task that finds nothing is skipped. What the acker has found complete is published last.

**When a task fails** it is tried again and resumes its batch. A bolt's batch that raises through no fault of
a row is held, and tried again later and later; no message fails for it, and the other tasks go on. `watcher`
comes last and fails if any task has, so that the run does. `{name}.monitor` tells what lasts.

`acker status {name}` shows where each component stands.
""",
    ),
    "acker": About(
        "Decides what became of each message.",
        """\
Folds the new events of `{name}` into its ledger, whenever events were logged and at least by the clock,
since messages also time out. The asset `{name}.ledger` shows what each fold decided.

**When a task fails** nothing is half done: a fold is one commit, and the next one takes up what this one
did not. `{name}.monitor` tells of messages that were given up: `acker failures {name}` says why,
`acker trace {name} MESSAGE` tells the story of one, and `{name}.replay` emits them again.
""",
    ),
    "retry": About(
        "Emits the messages again whose next attempt is due.",
        """\
Emits the messages of `{name}` again whose next attempt is due, whenever a fold has found such. It waits for
nobody: what people ask for is `{name}.replay`.

**When a task fails** try it again: what was planned is finished, and no attempt is emitted twice.
""",
    ),
    "replay": About(
        "Emits messages again that a person chooses in a form.",
        """\
Emits messages of `{name}` again that a person chooses: trigger it and fill in the form. Messages in flight
are left alone. Of acked messages the published rows are replaced once the new attempt is acked. What is due
is emitted by `{name}.retry`.

What the form selects is recorded by the task `select`, and just that is emitted, whatever matches later. The
log of `select` lists the first messages. A dry run records and emits nothing.

A replay of more than {settings.approval_limit:,} messages waits until another user approves it, and is
rejected if nobody answers in {settings.approval_hours:,} hours. What one user has asked for within a day, and
what is open of it, counts together. Who asked for what and why is kept in the table `replay_requests`, and
who approved it in `replay_steps`.

`settled` waits, without a worker, until each message that was emitted is acked, or is given up again. It
returns how many are. The run is green when all are acked.

**When a task fails** try it again: what was planned is finished, and no attempt is emitted twice. When
`settled` fails its message says how many messages were given up again, or have not settled within
{settings.settle_minutes:,} minutes, and what to do.
""",
    ),
    "reprocess": About(
        "Emits the messages of a day again, by Airflow's backfill.",
        """\
Emits the messages of `{name}` again that are of a day, in UTC: {day}. It never runs by itself. Choose
*Trigger*, *Backfill*, and the first and the last day; both are included. A day that was done before is done
again with *All Runs*. Or trigger it for a single day, which is its partition key: 2026-01-31.

Messages in flight are left alone. Of acked messages the published rows are replaced once the new attempt is
acked. `run` starts `{name}.run`, which takes the messages on. `settled` waits, without a worker, until each
is acked, or is given up again.

What is of a day is recorded by the task `select`, and just that is emitted. A day of more than
{settings.approval_limit:,} messages waits until another user approves it; what one user has asked for within
a day counts together, and that of `{name}.replay` with it.

**When a task fails** try it again, or clear it: the run makes the same request again, what was planned is
finished, and no attempt is emitted twice.
""",
    ),
    "monitor": About(
        "Tells what is late, too much, or was given up.",
        """\
Looks how `{name}` stands, apart from all that does its work: a task that hangs cannot stop it. `stands` fails
at each look for as long as something lasts: dead letters that nobody has acknowledged, a batch that is held
or not done, events that are not folded, a fold that is not published, messages that do not settle, a long
backlog, a source out of reach, an audit that failed or did not run, a DAG that is paused, a full disk.
`check` fails when there is something to tell of that: it began, it changed, or it has lasted for long since
it was told. It succeeds when something is over, and is skipped when nothing is new.

**When `check` fails** its message says what is wrong, and which page says what to do.
""",
    ),
    "maintain": About(
        "Trims, compacts and vacuums the tables, and audits.",
        """\
Keeps the tables of `{name}` small and quick to read. `trim` deletes tuples and events that no message in
flight and no published table needs, once the tuples are {settings.stream_retention_hours} hours old and the
events {settings.event_retention_hours}. Reasons of failures, which may quote rows, {reasons}.
`compact` rewrites small files. `vacuum` deletes files that no version of the last
{settings.file_retention_hours} hours refers to. Beside them `audit` judges whether anything is lost,
unexpected, duplicated, or unpublished for too long.

**When a task fails** nothing is lost, and the next run does what this one did not. When `audit` fails its log
lists what is wrong: `acker audit {name}`.
""",
    ),
}


def described(manifest: Manifest, kind: str, settings: Settings) -> dict[str, Any]:
    """The descriptions of a topology's DAG of a kind, as arguments of Airflow's `DAG`."""
    about, days = ABOUT[kind], settings.reason_retention_days
    reasons = f"expire after {days:,} days" if days else "are kept for ever"
    by = manifest.reprocess_by
    day = f"those whose `{by}` is that day" if by else "those that were first emitted on it"
    said = {"name": manifest.name, "doc": manifest.doc, "day": day, "reasons": reasons}
    doc = about.doc.format(settings=settings, **said)
    return {"description": about.line, "doc_md": doc}

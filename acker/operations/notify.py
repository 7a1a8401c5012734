"""Calling a topology's hooks after a fold."""

import logging

from acker.core.events import State
from acker.core.snapshot.ledger import Fold
from acker.core.snapshot.settled import written_by
from acker.topology.hooks import Hook, Hooks, Message, Notice

SAMPLE = 10  # messages in a notice, those with the lowest positions

log = logging.getLogger(__name__)


_ENDS = {Hook.ON_ACK: State.ACKED, Hook.ON_DEAD_LETTER: State.DEAD_LETTER, Hook.ON_LOST: State.LOST}
_COLUMNS = ("spout", "source_partition", "source_offset", "attempt", "reason", "component")


def call_hooks(hooks: Hooks, topology: str, previous: Fold | None, fold: Fold) -> None:
    """Tell a topology's hooks what a fold decided. One that raises stops neither the fold nor the others.

    Args:
        previous: the fold before this one, None before the first.
    """
    for notice in _notices(list(hooks), topology, previous, fold) if hooks else ():
        for function in hooks[notice.hook]:
            try:
                function(notice)
            except Exception:
                log.exception(
                    "The hook %s of %s raised when it was told of fold %s. The fold stands; "
                    "the hook is not called again for it.",
                    notice.hook,
                    notice.topology,
                    notice.fold,
                )


def _notices(hooks: list[Hook], topology: str, previous: Fold | None, fold: Fold) -> list[Notice]:
    """A notice for each hook that has something to hear."""
    conditions = {hook.value: _condition(hook, previous) for hook in hooks}
    counts, rows = written_by(fold, conditions, _COLUMNS, SAMPLE)
    found: dict[Hook, list[Message]] = {}
    for row in rows:
        found.setdefault(Hook(row.pop("name")), []).append(Message(**row))
    return [
        Notice(topology, hook, fold.number, counts[hook], tuple(found[hook]))
        for hook in Hook
        if hook in found
    ]


def _condition(hook: Hook, previous: Fold | None) -> str:
    """A SQL condition on the rows that a hook hears of; see `written_by`."""
    if hook is Hook.ON_EMIT:
        logged = previous.logged if previous else {}
        seen = "".join(f"WHEN spout = '{name}' THEN {number} " for name, number in logged.items())
        newest = f"CASE {seen}ELSE 0 END" if seen else "0"
        return f"state IN ('pending', 'acked', 'failed', 'timed_out') AND batch > {newest}"
    if hook is Hook.ON_RETRY:
        return "state = 'retrying' AND ended IS NOT NULL"
    return f"state = '{_ENDS[hook]}'"

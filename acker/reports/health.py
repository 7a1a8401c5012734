"""Findings that an operator should look at, by the present state and not by the newest events.

Each look finds a fault again that was there at the last one, so that no alert is missed by a process that
died, or by a person who was away. A look that raises, or does not end, is a finding itself and hides no
other. The looks need no Spark.
"""

from collections.abc import Callable

from acker.core.errors import AckerError
from acker.core.patience import Unanswered, within
from acker.reports import late, places
from acker.reports.looks import EVERYTHING, Finding, Findings, Look

_LOOK_SECONDS = 120  # that one may take

_ALWAYS = (places.full_disks, *places.OF_SOURCES)
_AFTER_A_RUN = (places.publishers, *late.LOOKS)


def findings(look: Look) -> list[Finding]:
    """Findings on work that is late, too much, out of reach, or given up and not acknowledged."""
    found = _looked(look, places.store)
    if any(each.hides for each in found):
        return [*found, *_looked(look, places.full_disks)]
    for each in (*_ALWAYS, *(_AFTER_A_RUN if look.has_run else ())):
        found += _looked(look, each)
    return found


def _looked(look: Look, function: Callable[[Look], Findings]) -> list[Finding]:
    """The findings of one look, or a finding that it could not look."""
    found: list[Finding] = []
    kind = str(function.__name__).replace("_", "-")
    key = (look.topology.name, look.store.uri, kind)
    try:
        within(_LOOK_SECONDS, key, lambda: found.extend(function(look)))
    except Exception as error:
        is_told = isinstance(error, AckerError | Unanswered)
        why = str(error) if is_told else f"{type(error).__name__}: {error}"
        said = f"{kind.replace('-', ' ').capitalize()} could not be looked at: {why.rstrip('.')}."
        hides = EVERYTHING if function is places.store else ((kind, None),)
        found.append(Finding("not-looked", kind, said, hides=hides))
    return found

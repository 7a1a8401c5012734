"""A trigger that looks whether a DAG has anything to do, so that none starts for nothing.

It runs in Airflow's triggerer, one for each DAG, all in the same process, each in a thread of its own: a
source that hangs holds up no other topology. A look takes some hundredths of a second, and the tasks of an
empty run take ten seconds.
"""

import asyncio
import logging
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from airflow.triggers.base import BaseEventTrigger, TriggerEvent
from asgiref.sync import sync_to_async

from acker.core.errors import AckerError
from acker.core.patience import Unanswered, within
from acker.runtime.manifest import fingerprint
from acker.runtime.settings import Settings

log = logging.getLogger(__name__)

_LOOK_SECONDS = 90  # more than a source has to answer
_IMPORTED: dict[str, str] = {}  # import string -> the fingerprint that it had when this process imported it


class Watch(BaseEventTrigger):
    """A trigger that looks for work of a DAG. Where it finds some, it sends an event with sentences on it.

    Args:
        topology: the topology's name.
        kind: the kind of the DAG, `run` or `acker`.
        seconds: the pause between two looks.
    """

    def __init__(self, topology: str, kind: str, seconds: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.topology = topology
        self.kind = kind
        self.seconds = seconds

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """The class and the arguments from which Airflow makes the trigger again."""
        own = {"topology": self.topology, "kind": self.kind, "seconds": self.seconds}
        return f"{__name__}.{type(self).__name__}", own

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Look for ever, and send an event each time that work waits."""
        own = ThreadPoolExecutor(1, f"acker-watch-{self.topology}-{self.kind}")
        look = sync_to_async(_look, thread_sensitive=False, executor=own)
        while True:
            found = await look(self.topology, self.kind)
            if found:
                yield TriggerEvent({"waits": found})  # type: ignore[no-untyped-call]
            await asyncio.sleep(self.seconds)


def _look(topology: str, kind: str) -> list[str]:
    """Sentences on the work that waits, or the reason why that cannot be known.

    For such a reason the DAG starts as well: its tasks then meet the fault, and tell it.
    """
    try:
        return within(_LOOK_SECONDS, ("watch", topology, kind), partial(_waits, topology, kind))
    except (AckerError, Unanswered) as error:
        return [str(error)]
    except Exception as error:  # of a topology's author, or of what a store is on
        log.exception("%s cannot be looked at.", topology)
        return [f"{type(error).__name__}: {error}"]


def _waits(topology: str, kind: str) -> list[str]:
    for text in Settings.from_env().topologies:
        now = fingerprint(text)
        if _IMPORTED.setdefault(text, now) != now:
            return [f"{text} has changed since the triggerer imported it; start the triggerer again"]
    from acker.airflow import tasks

    return tasks.waits_for(topology, kind)

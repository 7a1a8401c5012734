"""The task that waits until the messages of a replay have settled. No worker waits with it.

A trigger looks at the messages in Airflow's triggerer, as the triggers of `watch` do. Once an hour the task
itself looks, so that without a triggerer it waits longer, but not for ever.
"""

import asyncio
import logging
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException
from airflow.triggers.base import BaseTrigger, TriggerEvent
from asgiref.sync import sync_to_async

from acker.core.patience import within
from acker.runtime.settings import Settings

if TYPE_CHECKING:
    from acker.reports.replayed import Replayed

TASK = "settled"

_LOOK_SECONDS = 90
_LOOK_AGAIN = timedelta(hours=1)  # whether a triggerer runs or not

log = logging.getLogger(__name__)


class Settling(BaseTrigger):
    """A trigger that looks at the messages of a request until none is open.

    Args:
        topology: the topology's name.
        request_id: the request's id.
        seconds: the pause between two looks.
    """

    def __init__(self, topology: str, request_id: str, seconds: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.topology = topology
        self.request_id = request_id
        self.seconds = seconds
        self._seen: int | None = None  # version of the ledger in which messages were open

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """The class and the arguments from which Airflow makes the trigger again."""
        own = {"topology": self.topology, "request_id": self.request_id, "seconds": self.seconds}
        return f"{__name__}.{type(self).__name__}", own

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Look until the messages have settled, and then send one event."""
        own = ThreadPoolExecutor(1, f"acker-settling-{self.topology}")
        look = sync_to_async(self._have_settled, thread_sensitive=False, executor=own)
        try:
            while not await look():
                await asyncio.sleep(self.seconds)
        finally:
            own.shutdown(wait=False)  # a look that hangs must not hold up the other triggers
        yield TriggerEvent({})  # type: ignore[no-untyped-call]

    def _have_settled(self) -> bool:
        """Whether the messages have settled; False where that cannot be known now."""
        try:
            return within(_LOOK_SECONDS, ("settling", self.topology, self.request_id), self._look)
        except Exception:  # of what the store is on; the next look may find it
            log.exception("The replay %s of %s cannot be looked at.", self.request_id, self.topology)
            return False

    def _look(self) -> bool:
        from acker.core.store.schemas import LEDGER
        from acker.core.store.store import Store
        from acker.reports.replayed import replayed

        store = Store(Settings.from_env().store, self.topology)
        ledger = store.open(LEDGER)
        version = ledger.version() if ledger else None
        if version is None or version == self._seen:  # nothing has settled since
            return False
        is_open = replayed(store, self.request_id).open > 0
        self._seen = version
        return not is_open


class Settled(BaseOperator):
    """The task that waits until the messages emitted again by the run have settled, and returns their counts.

    Args:
        topology: the topology's name.
    """

    def __init__(self, *, topology: str, **options: Any) -> None:
        super().__init__(**options)
        self.topology = topology

    def execute(self, context: Any) -> dict[str, int]:
        """Look at the messages, and wait while some are open.

        Returns:
            Name -> number of messages, as `counts` of `Replayed` has them.

        Raises:
            AirflowSkipException: no message was emitted again.
            AirflowFailException: messages were given up again or are gone from their source, or some are open
                when `PIPELINE_SETTLE_MINUTES` have passed.
        """
        return self._look(context)

    def resume_execution(self, next_method: str, next_kwargs: dict[str, Any] | None, context: Any) -> Any:
        """Look at the messages again, after the trigger's event or after the timeout of the wait for it."""
        return self._look(context)

    def _look(self, context: Any) -> dict[str, int]:
        from acker.core.store.store import Store
        from acker.reports.replayed import replayed

        settings, request_id = Settings.from_env(), context["dag_run"].run_id
        found = replayed(Store(settings.store, self.topology), request_id)
        if not found.emitted:
            raise AirflowSkipException("Nothing was emitted.")
        limit = timedelta(minutes=settings.settle_minutes)
        left = context["ti"].start_date + limit - datetime.now(UTC)
        if found.open and left > timedelta():
            self.log.info("%s", found)
            trigger = Settling(self.topology, request_id, settings.watch_seconds)
            self.defer(trigger=trigger, method_name="execute", timeout=min(left, _LOOK_AGAIN))
        if found.open or found.has_failed:
            context["ti"].xcom_push(key="return_value", value=found.counts)
            raise AirflowFailException(" ".join([str(found), *_advice(found, context["dag"].dag_id, limit)]))
        self.log.info("%s", found)
        return found.counts


def settled_task(topology: str) -> Settled:
    """The task `settled` of a DAG whose requests have the ids of its runs."""
    return Settled(
        topology=topology,
        task_id=TASK,
        trigger_rule="none_failed",  # an `emit` that is tried again after its process ended is skipped
        doc_md="Waits, without a worker, until what was emitted has settled. Fails if messages failed again.",
    )


def _advice(found: "Replayed", dag_id: str, limit: timedelta) -> list[str]:
    """Sentences that advise what to do about messages that have not been acked."""
    said = []
    if found.has_failed:
        said.append(f"`acker failures {found.topology}` says why; mend that, and trigger {dag_id} again.")
    if found.open:
        minutes = limit // timedelta(minutes=1)
        said.append(
            f"What is open has not settled within the {minutes:,} minutes of PIPELINE_SETTLE_MINUTES: "
            f"`acker status {found.topology}` shows what it waits for. It goes on; clear this task, and it "
            "waits again."
        )
    return said

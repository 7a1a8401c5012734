"""The approval of a large replay: a user other than the one who asked for it gives the approval in time.

The question is made from the store's record of the request. Airflow hands the answer to the operator alone,
which writes it into the store. No data are read that a user may write, such as a task's state or an XCom.
"""

import json
from collections.abc import Callable, Iterator
from datetime import timedelta
from importlib import import_module
from typing import Any

from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk.bases.notifier import BaseNotifier
from airflow.sdk.configuration import conf
from airflow.sdk.exceptions import AirflowFailException

from acker.airflow.wiring import SETTINGS
from acker.core.quoting import markdown_code
from acker.runtime.manifest import Manifest

TASK = "approve"

_CLEAR = "Nothing was emitted. Clear the task {task} of this run of {dag}, and it asks again."


class Approval(ApprovalOperator):
    """The task that asks a person to approve a replay. It fails where a person approves who may not.

    Args:
        manifest: the manifest of the topology whose messages are to be emitted again.
    """

    def __init__(self, *, manifest: Manifest, **options: Any) -> None:
        super().__init__(**options)
        self.manifest = manifest

    def execute(self, context: Any) -> Any:
        """Ask for the approval, with a question from the store's record of the request."""
        from acker.airflow.tasks import open_run
        from acker.operations.approvals import question_of
        from acker.operations.selection.requests import read_request

        check_notifier()
        run = open_run(self.manifest.name)
        question = question_of(run.store, read_request(run.store, context["dag_run"].run_id), run.clock())
        self.subject = f"Replay {question.request.matched:,} messages of {self.manifest.name}?"
        self.body = "\n\n".join(body_of(question, self.manifest))
        return super().execute(context)

    def execute_complete(self, context: Any, event: dict[str, Any]) -> Any:
        """Take the answer. Where no person answers in time, Airflow itself answers with a rejection."""
        if "error" not in event:
            self._record(context, event)
        return super().execute_complete(context, event)

    def _record(self, context: Any, event: dict[str, Any]) -> None:
        """Write the answer into the store.

        Raises:
            AirflowFailException: the answer is an approval by a person who may not approve. Nothing is
                written.
        """
        from acker.airflow.tasks import open_run
        from acker.operations.approvals import record_answer
        from acker.operations.selection.requests import read_request

        run, dag_run = open_run(self.manifest.name), context["dag_run"]
        request = read_request(run.store, dag_run.run_id)
        user, is_approved = event["responded_by_user"], event["chosen_options"] == [self.APPROVE]
        if is_approved:
            check_approver(user, dag_run.dag_id)
            if user["name"] in (request.requested_by, dag_run.triggering_user_name):
                check_own(user["name"], dag_run.dag_id)
        record_answer(run, request, is_approved, user and user["name"], event["responded_at"])


class _Notifier(BaseNotifier):
    """Calls the function or notifier that `PIPELINE_APPROVAL_NOTIFIER` names."""

    def notify(self, context: Any) -> None:
        _notifier()(context)


def approval_task(manifest: Manifest) -> Approval:
    """The task that asks a person about a replay of a topology."""
    return Approval(
        manifest=manifest,
        task_id=TASK,
        subject=f"Replay messages of {manifest.name}?",
        response_timeout=timedelta(hours=SETTINGS.approval_hours),
        defaults=ApprovalOperator.REJECT,
        assigned_users=[{"id": name, "name": name} for name in SETTINGS.approvers] or None,
        notifiers=[_Notifier()] if SETTINGS.approval_notifier else [],
        doc_md="Waits for another user than who asked for the replay.",
    )


def body_of(question: Any, manifest: Manifest) -> Iterator[str]:
    """The paragraphs of the question about a request, in Markdown, in which no text of a user's is markup.

    Args:
        question: a `Question` of `acker.operations.approvals`.
    """
    request, told = question.request, question.told
    if told is not None:
        partners = (
            f" and {told.partners:,} that come along, since they were settled together with chosen ones"
        )
        yield f"{told.chosen:,} messages were chosen{partners if told.partners else ''}."
        if told.acked and manifest.tables:
            tables = ", ".join(markdown_code(table) for table in manifest.tables.values())
            yield (
                f"{told.acked:,} of them are acked: what they have published is replaced in {tables} once "
                "their new attempt is acked."
            )
        if told.gone:
            yield (
                f"{told.gone:,} of them are gone from their source, cannot be read any more, and would be "
                "lost; the log of `select` says why."
            )
        yield from (f"Whether {markdown_code(each)}" for each in told.unchecked)
    if question.together:
        yield markdown_code(question.together)
    by = {"why": request.why, "requested by": request.requested_by}
    asked = {**json.loads(request.selection), **by}.items()
    yield "\n".join(f"- `{name}`: {markdown_code(_shown(value))}" for name, value in asked if value)
    yield "Rejecting leaves every message as it is."


def _shown(value: Any) -> str:
    if not isinstance(value, list):
        return str(value)
    return ", ".join(each if isinstance(each, str) else ":".join(map(str, each)) for each in value)


def check_notifier() -> None:
    """Refuse to ask where `PIPELINE_APPROVAL_NOTIFIER` is set and would tell nobody.

    Raises:
        AirflowFailException: the notifier does not import, or cannot be called.
    """
    if SETTINGS.approval_notifier is None:
        return
    try:
        is_found = callable(_notifier())
    except Exception as error:
        raise AirflowFailException(
            f"PIPELINE_APPROVAL_NOTIFIER is {SETTINGS.approval_notifier!r}, which does not import: "
            f"{type(error).__name__}: {error}. Mend that, and clear this task."
        ) from error
    if not is_found:
        raise AirflowFailException(
            f"PIPELINE_APPROVAL_NOTIFIER is {SETTINGS.approval_notifier!r}, which cannot be called. Name a "
            "function, or a notifier of Airflow, and clear this task."
        )


def _notifier() -> Callable[[Any], object]:
    module, _, name = str(SETTINGS.approval_notifier).partition(":")
    found: Callable[[Any], object] = getattr(import_module(module), name)
    return found


def check_approver(user: dict[str, str] | None, dag_id: str) -> None:
    """Refuse an approval by nobody, or by a user who is not among `PIPELINE_APPROVERS`, where that is set.

    Raises:
        AirflowFailException: the user may not approve. The message names the user and says what to do.
    """
    if user is None:
        raise AirflowFailException("Nobody has approved this replay. " + _CLEAR.format(task=TASK, dag=dag_id))
    if SETTINGS.approvers and not {user["id"], user["name"]} & {*SETTINGS.approvers}:
        raise AirflowFailException(
            f"{user['name']} is not among the {', '.join(SETTINGS.approvers)} of PIPELINE_APPROVERS, who may "
            f"approve a replay. {_CLEAR.format(task=TASK, dag=dag_id)}"
        )


def check_own(user: str, dag_id: str) -> None:
    """Refuse an approval by the user who asked for the replay, unless `PIPELINE_SELF_APPROVAL` allows it.

    Raises:
        AirflowFailException: the user may not approve. The message names the user and says what to do.
    """
    if SETTINGS.self_approval == "on" or (SETTINGS.self_approval == "auto" and _is_only_user(user)):
        return
    raise AirflowFailException(
        f"{user} asked for this replay, so another user must approve it. "
        f"{_CLEAR.format(task=TASK, dag=dag_id)} Where there is one user alone, set "
        "PIPELINE_SELF_APPROVAL to on."
    )


def _is_only_user(name: str) -> bool:
    """Whether Airflow's own configuration, as this task sees it, knows no user but this one."""
    if not conf.get("core", "auth_manager").endswith(".SimpleAuthManager"):
        return False
    if conf.getboolean("core", "simple_auth_manager_all_admins"):  # nobody logs in, and all have one name
        return True
    users = conf.getlist("core", "simple_auth_manager_users")
    return {user.partition(":")[0].strip() for user in users} == {name}

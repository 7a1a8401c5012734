"""The approval of a large replay: another user's than that of who asked for it, and given in time."""

from datetime import timedelta
from typing import Any

from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk.configuration import conf
from airflow.sdk.exceptions import AirflowFailException

from acker.airflow.wiring import SETTINGS
from acker.runtime.manifest import Manifest

TASK = "approve"

# Names as well are code: only the task before has seen to it that they are the form's own.
CHOSEN = """\
{% set gone = ti.xcom_pull(task_ids='select', key='gone') %}\
{% if gone %}{{ '{:,}'.format(gone) }} of them are gone from their source and would be lost; the log of \
`select` says why.

{% endif %}\
{% for name, value in params.items() if value %}
- {{ name | as_code }}: \
{{ (value | join(', ') if value is not string and value is iterable else value) | as_code }}
{%- endfor %}

Rejecting leaves every message as it is.
"""
_MATCHED = "{{ '{:,}'.format(ti.xcom_pull(task_ids='select', key='matched')) }}"


class Approval(ApprovalOperator):
    """Asks a person. It fails where who asked for the replay approves it, unless that is allowed."""

    def execute_complete(self, context: Any, event: dict[str, Any]) -> Any:
        """Take the answer, which after a while is Airflow's own, a rejection."""
        asked, user = context["dag_run"].triggering_user_name, event.get("responded_by_user")
        if event.get("chosen_options") == [self.APPROVE] and user and user["name"] == asked:
            check_own(asked, context["dag_run"].dag_id)
        return super().execute_complete(context, event)


def approval_task(manifest: Manifest) -> Approval:
    """The task that asks a person about a replay of a topology."""
    return Approval(
        task_id=TASK,
        subject=f"Replay {_MATCHED} messages of {manifest.name}?",
        body=CHOSEN,
        response_timeout=timedelta(hours=SETTINGS.approval_hours),
        defaults=ApprovalOperator.REJECT,
        doc_md="Waits for another user than who asked for the replay.",
    )


def is_approved(context: Any) -> bool:
    """Whether a person has approved, and not only marked the task as one that has succeeded."""
    answer = context["ti"].xcom_pull(task_ids=TASK)
    return answer is not None and answer["chosen_options"] == [ApprovalOperator.APPROVE]


def check_own(user: str, dag_id: str) -> None:
    """Refuse that a user approves what they have asked for.

    Raises:
        AirflowFailException: with who that is, and what to do.
    """
    if SETTINGS.self_approval == "on" or (SETTINGS.self_approval == "auto" and _is_only_user(user)):
        return
    raise AirflowFailException(
        f"{user} asked for this replay, so another user must approve it. Nothing was emitted. Clear the task "
        f"{TASK} of this run of {dag_id}, and it asks again. Where there is one user alone, set "
        "PIPELINE_SELF_APPROVAL to on."
    )


def _is_only_user(name: str) -> bool:
    """Whether Airflow's own configuration, as this task sees it, knows nobody else."""
    if not conf.get("core", "auth_manager").endswith(".SimpleAuthManager"):
        return False
    if conf.getboolean("core", "simple_auth_manager_all_admins"):  # nobody logs in, and all have one name
        return True
    users = conf.getlist("core", "simple_auth_manager_users")
    return {user.partition(":")[0].strip() for user in users} == {name}

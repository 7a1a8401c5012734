"""The settings of a deployment: read once from the environment, checked, and frozen.

Only the registered topologies may stand in the project's file instead.
"""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

from acker.core.errors import SettingsError
from acker.core.paths import absolute, unusable
from acker.runtime.project import project_topologies
from acker.topology.schedule import WATCH, Schedule, longest_pause

LOOPBACK = "127.0.0.1"
EVERYWHERE = "0.0.0.0"

_STORE_SCHEMES = ("file", "s3", "s3a", "abfss", "gs")
_SCHEME = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]*):")
_IMPORT_STRING = re.compile(r"^[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*$")
_MEMORY = re.compile(r"^[1-9][0-9]*[kmgtKMGT]$")
_REMOTE = re.compile(r"sc://[^/:;@\s]+(?::([0-9]{1,5}))?(?:/(?:;[^;=\s]+=[^;=\s]+)*)?")
_LARGEST_PORT = 65535
_UNFIT = '":'  # what splits lists of folders, or ends a text among Java's options
_AUTO = "auto"
_LOCAL = "local[*]"
_KEPT = "PIPELINE_FILE_RETENTION_HOURS"
_REASONS_KEPT = "PIPELINE_REASON_RETENTION_DAYS"
_MOST_REASON_RETENTION_DAYS = 36_500
_LEAST_FILE_RETENTION_HOURS = 24  # what the store's tables promise their readers as well
_MASTER = re.compile(r"spark://[^/:;@\s]+:[0-9]{1,5}(,[^/:;@\s]+:[0-9]{1,5})*")  # of several one leads


@dataclass(frozen=True)
class Settings:
    """Where things are and what to run them with. A variable that is empty counts as not set.

    Attributes:
        home: `PIPELINE_HOME`, the folder of the server's state and logs. Default: `data` below the
            current folder.
        store: `PIPELINE_STORE`, a path or URI below which all Delta tables are. A local path becomes
            absolute, since the server resolves it and has a current folder of its own. Default: `store`
            below `home`.
        umask: `PIPELINE_UMASK`, the rights that others do not get on what commands, tasks and servers write.
            Default: 077, all.
        deployment: `PIPELINE_DEPLOYMENT`, the name by which machines that work on one store together know
            each other. Default: none, and `home` keeps one (`acker.runtime.deployment`).
        topologies: `PIPELINE_TOPOLOGIES`, the registered topologies as import strings
            `package.module:attribute`, with commas between them. Default: those that `[tool.acker]` lists
            in the current folder's `pyproject.toml`.
        remote: `SPARK_REMOTE`, the `sc://host:port` of a Spark Connect server that somebody else runs.
            Default: none, and the project starts a server of its own.
        token: `SPARK_CONNECT_AUTHENTICATE_TOKEN`, Spark's own variable: what a client has to show the
            project's own server. Default: none, and each server generates one
            (`acker.runtime.server.tokens`).
        server_address: `PIPELINE_SERVER_ADDRESS`, where the project's own server listens: 127.0.0.1, or
            0.0.0.0 for all networks, which needs a token. Default: 127.0.0.1.
        spark_master: `PIPELINE_SPARK_MASTER`, the cluster that the project's own server runs its jobs on, as
            `spark://host:port`. Default: `local[*]`, this machine.
        driver_memory: `PIPELINE_DRIVER_MEMORY`, the heap of the project's own server. Default: `4g`.
        run_schedule: `PIPELINE_RUN_SCHEDULE`, when Airflow runs the topologies, as a cron expression in UTC.
            Default: `@watch`, when there is something to do.
        acker_schedule: `PIPELINE_ACKER_SCHEDULE`, when it folds at the latest. Default: `@watch`.
        watch_seconds: `PIPELINE_WATCH_SECONDS`, how often `@watch` looks for something to do. Default: 60.
        maintain_schedule: `PIPELINE_MAINTAIN_SCHEDULE`. Default: at 03:00.
        stream_retention_hours: `PIPELINE_STREAM_RETENTION_HOURS`, how long streams keep tuples that no
            message in flight and no published table needs. Default: 168, a week.
        event_retention_hours: `PIPELINE_EVENT_RETENTION_HOURS`, the same of folded events. Default: 168.
        reason_retention_days: `PIPELINE_REASON_RETENTION_DAYS`, how long the reasons of what has settled are
            kept, which may quote rows. Default: 0, for ever.
        file_retention_hours: `PIPELINE_FILE_RETENTION_HOURS`, how long Delta keeps files that the newest
            version of a table no longer has. Default: 168; at least 24.
        approval_limit: `PIPELINE_APPROVAL_LIMIT`; a manual replay of more messages waits for a person.
            Default: 1000.
        approval_hours: `PIPELINE_APPROVAL_HOURS`, how long it waits before it counts as rejected.
            Default: 24.
        self_approval: `PIPELINE_SELF_APPROVAL`, whether who asked for a replay may approve it: `on`, `off`,
            or `auto`, where Airflow's own configuration knows no other user. Default: `auto`.
        approvers: `PIPELINE_APPROVERS`, the users that may approve one, by their names at Airflow, with
            commas between them. Default: none, and every other user may.
        approval_notifier: `PIPELINE_APPROVAL_NOTIFIER`, the import string of what is called with the context
            of a task that waits for a person: a function, or a notifier of Airflow. Default: none.
        settle_minutes: `PIPELINE_SETTLE_MINUTES`, for how long the DAG of a replay waits until the messages
            have settled that it has emitted. Default: 1440, a day.
        monitor_schedule: `PIPELINE_MONITOR_SCHEDULE`, when Airflow looks for what an operator should know, as
            a cron expression in UTC or a preset. Default: every five minutes. What it fails for:
        dead_letters_allowed: `PIPELINE_DEAD_LETTERS_ALLOWED`, that nobody has acknowledged. Default: 0.
        backlog_allowed: `PIPELINE_BACKLOG_ALLOWED`, messages in flight or waiting for their next attempt.
            Default: 1000000.
        backlog_ahead_hours: `PIPELINE_BACKLOG_AHEAD_HOURS`, for how long ahead their number is reckoned by
            what it grew by in the last hour. Default: 4; 0: not at all.
        acker_late_minutes: `PIPELINE_ACKER_LATE_MINUTES`, how old events that no fold has seen may be.
            Default: 15.
        batch_late_minutes: `PIPELINE_BATCH_LATE_MINUTES`, how old a batch that is not done may be, and a fold
            that is not published, and what a spout that is watched does not read. Default: 60.
        publish_late_minutes: `PIPELINE_PUBLISH_LATE_MINUTES`, for how long acked messages may be unpublished
            before an audit fails. As for the monitor, the longest pause of the schedule comes on top.
            Default: 1440, a day. 0: for ever.
        retry_late_minutes: `PIPELINE_RETRY_LATE_MINUTES`, for how long a message whose next attempt is due
            may not be emitted. Default: 60.
        upkeep_late_minutes: `PIPELINE_UPKEEP_LATE_MINUTES`, for how long the audit, and each other step of
            the maintenance, may not have ended. The longest pause of its schedule comes on top.
            Default: 1440, a day. 0: for ever.
        backup_late_minutes: `PIPELINE_BACKUP_LATE_MINUTES`, how old the newest backup may be. Default: 0, and
            there need be none.
        alarm_again_minutes: `PIPELINE_ALARM_AGAIN_MINUTES`, after how long the monitor tells again of what
            stands. Default: 1440, a day. 0: never.
        message_late_minutes: `PIPELINE_MESSAGE_LATE_MINUTES`, how old a message that has not settled may be.
            Default: 1440, a day.
        give_up_after_tries: `PIPELINE_GIVE_UP_AFTER_TRIES`, how often Airflow's task of a bolt tries a batch
            that raises through no fault of a row before its messages are failed. Default: 0, never.
        source_late_minutes: `PIPELINE_SOURCE_LATE_MINUTES`, how old what a spout has yet to read may
            be. Default: 0, and it may be of any age.
        disk_free_percent: `PIPELINE_DISK_FREE_PERCENT`, how much of a disk, and of its inodes, has to be
            free. Default: 10.
        task_timeout_minutes: `PIPELINE_TASK_TIMEOUT_MINUTES`, after which Airflow ends a task and tries it
            again. Default: 360.
        airflow_retention_days: `PIPELINE_AIRFLOW_RETENTION_DAYS`, how long Airflow's database and logs are
            kept where what started Airflow cleans them. 0: for ever. Default: 90.
        acker_tasks: `PIPELINE_ACKER_TASKS`, how many tasks do the work of a log or of a fold. Of 1 it is the
            caller; more are Spark's. None, for `auto`: as many as the rows need. Default: 1 where Spark's
            jobs run on this machine, by the project's own server, else `auto`.
        fold_rows: `PIPELINE_FOLD_ROWS`, how many events and messages in flight one of them holds in memory
            at once, a third to three quarters of a KB each. Default: 8000000.
        jars: `PIPELINE_JARS`, the folder of the jars that its own server loads. Default: none, and they are
            fetched into the Python environment when a server first needs them.
    """

    home: Path
    store: str
    umask: int
    deployment: str | None
    topologies: tuple[str, ...]
    remote: str | None = field(repr=False)  # it may hold a token
    token: str | None = field(repr=False)
    server_address: str
    spark_master: str
    driver_memory: str
    run_schedule: str
    acker_schedule: str
    watch_seconds: int
    maintain_schedule: str
    stream_retention_hours: int
    event_retention_hours: int
    reason_retention_days: int
    file_retention_hours: int
    approval_limit: int
    approval_hours: int
    self_approval: str
    approvers: tuple[str, ...]
    approval_notifier: str | None
    settle_minutes: int
    dead_letters_allowed: int
    backlog_allowed: int
    backlog_ahead_hours: int
    acker_late_minutes: int
    give_up_after_tries: int
    source_late_minutes: int
    batch_late_minutes: int
    publish_late_minutes: int
    message_late_minutes: int
    retry_late_minutes: int
    upkeep_late_minutes: int
    backup_late_minutes: int
    alarm_again_minutes: int
    disk_free_percent: int
    monitor_schedule: str
    task_timeout_minutes: int
    airflow_retention_days: int
    acker_tasks: int | None
    fold_rows: int
    jars: Path | None

    @property
    def is_on_s3(self) -> bool:
        """Whether the store is."""
        return self.store.startswith("s3a:")

    @property
    def is_on_cluster(self) -> bool:
        """Whether the project's own server runs its jobs on a cluster."""
        return self.spark_master != _LOCAL

    @property
    def upkeep_late(self) -> dict[str, timedelta]:
        """Step of the upkeep -> for how long it may not have ended; a step without: for ever."""
        late, backup = (
            timedelta(minutes=self.upkeep_late_minutes),
            timedelta(minutes=self.backup_late_minutes),
        )
        pause = longest_pause(self.maintain_schedule)
        steps = dict.fromkeys(("audit", "trim", "compact", "vacuum"), late + pause) if late else {}
        return steps | ({"backup": backup} if backup else {})

    def overdue_before(self, schedule: Schedule, now: datetime) -> datetime | None:
        """When what is not published was acked at the latest, for an audit to fail; None: it never does.

        Args:
            schedule: the topology's own; None where it has that of the deployment.
        """
        late = timedelta(minutes=self.publish_late_minutes)
        return now - late - self.longest_pause(schedule) if late else None

    def longest_pause(self, schedule: Schedule) -> timedelta:
        """How far two runs of a topology with a schedule are apart at most; zero where no clock says it."""
        return longest_pause(self.run_schedule if schedule is None else schedule)

    @classmethod
    def from_env(cls, environ: Mapping[str, str] = os.environ) -> "Settings":
        """Read the settings from environment variables.

        Raises:
            SettingsError: A variable has a value that cannot serve.
        """

        def value(name: str, default: str) -> str:
            return environ.get(name, "").strip() or default

        def number(name: str, default: int) -> int:
            return _number(name, value(name, str(default)))

        token = value("SPARK_CONNECT_AUTHENTICATE_TOKEN", "") or None
        remote, master = _remote(value("SPARK_REMOTE", "")), _master(value("PIPELINE_SPARK_MASTER", _LOCAL))
        is_here = remote is None and master == _LOCAL
        home = _home(value("PIPELINE_HOME", "data"))
        return cls(
            home=home,
            store=_store(value("PIPELINE_STORE", str(home / "store"))),
            umask=_umask(value("PIPELINE_UMASK", "077")),
            deployment=_deployment(value("PIPELINE_DEPLOYMENT", "")),
            topologies=_topologies(value("PIPELINE_TOPOLOGIES", "")),
            remote=remote,
            token=token,
            server_address=_address(value("PIPELINE_SERVER_ADDRESS", LOOPBACK), token),
            spark_master=master,
            driver_memory=_memory(value("PIPELINE_DRIVER_MEMORY", "4g")),
            run_schedule=value("PIPELINE_RUN_SCHEDULE", WATCH),
            acker_schedule=value("PIPELINE_ACKER_SCHEDULE", WATCH),
            watch_seconds=positive_number("PIPELINE_WATCH_SECONDS", 60, environ),
            maintain_schedule=value("PIPELINE_MAINTAIN_SCHEDULE", "0 3 * * *"),
            stream_retention_hours=number("PIPELINE_STREAM_RETENTION_HOURS", 168),
            event_retention_hours=number("PIPELINE_EVENT_RETENTION_HOURS", 168),
            reason_retention_days=_reason_retention(_REASONS_KEPT, number(_REASONS_KEPT, 0)),
            file_retention_hours=_file_retention(_KEPT, number(_KEPT, 168)),
            approval_limit=number("PIPELINE_APPROVAL_LIMIT", 1000),
            approval_hours=positive_number("PIPELINE_APPROVAL_HOURS", 24, environ),
            self_approval=one_of("PIPELINE_SELF_APPROVAL", (_AUTO, "on", "off"), environ),
            approvers=_names(value("PIPELINE_APPROVERS", "")),
            approval_notifier=_notifier(value("PIPELINE_APPROVAL_NOTIFIER", "")),
            settle_minutes=positive_number("PIPELINE_SETTLE_MINUTES", 1440, environ),
            dead_letters_allowed=number("PIPELINE_DEAD_LETTERS_ALLOWED", 0),
            backlog_allowed=number("PIPELINE_BACKLOG_ALLOWED", 1000000),
            backlog_ahead_hours=number("PIPELINE_BACKLOG_AHEAD_HOURS", 4),
            acker_late_minutes=number("PIPELINE_ACKER_LATE_MINUTES", 15),
            give_up_after_tries=number("PIPELINE_GIVE_UP_AFTER_TRIES", 0),
            source_late_minutes=number("PIPELINE_SOURCE_LATE_MINUTES", 0),
            batch_late_minutes=number("PIPELINE_BATCH_LATE_MINUTES", 60),
            publish_late_minutes=number("PIPELINE_PUBLISH_LATE_MINUTES", 1440),
            message_late_minutes=number("PIPELINE_MESSAGE_LATE_MINUTES", 1440),
            retry_late_minutes=number("PIPELINE_RETRY_LATE_MINUTES", 60),
            upkeep_late_minutes=number("PIPELINE_UPKEEP_LATE_MINUTES", 1440),
            backup_late_minutes=number("PIPELINE_BACKUP_LATE_MINUTES", 0),
            alarm_again_minutes=number("PIPELINE_ALARM_AGAIN_MINUTES", 1440),
            disk_free_percent=number("PIPELINE_DISK_FREE_PERCENT", 10),
            monitor_schedule=value("PIPELINE_MONITOR_SCHEDULE", "*/5 * * * *"),
            task_timeout_minutes=positive_number("PIPELINE_TASK_TIMEOUT_MINUTES", 360, environ),
            airflow_retention_days=number("PIPELINE_AIRFLOW_RETENTION_DAYS", 90),
            acker_tasks=_acker_tasks(value("PIPELINE_ACKER_TASKS", _AUTO), is_here),
            fold_rows=positive_number("PIPELINE_FOLD_ROWS", 8_000_000, environ),
            jars=_folder("PIPELINE_JARS", jars) if (jars := value("PIPELINE_JARS", "")) else None,
        )


def positive_number(name: str, default: int, environ: Mapping[str, str] = os.environ) -> int:
    """What an environment variable says of a command's size, 1 or more.

    Raises:
        SettingsError: it is no such number.
    """
    text = environ.get(name, "").strip() or str(default)
    if not re.fullmatch("0*[1-9][0-9]{0,8}", text):
        raise SettingsError(f"{name} is {text!r}; set it to a whole number, 1 or more.")
    return int(text)


def one_of(name: str, values: Sequence[str], environ: Mapping[str, str] = os.environ) -> str:
    """What an environment variable says, one of these values; the first of them where it says nothing.

    Raises:
        SettingsError: it is none of them.
    """
    text = environ.get(name, "").strip() or values[0]
    if text not in values:
        raise SettingsError(f"{name} is {text!r}; set it to {' or '.join(values)}.")
    return text


def without_secrets(url: str) -> str:
    """A URL as it may be printed: without its parameters, of which one may be a token, and without a user."""
    return re.sub(r"//[^/]*@", "//…@", url.partition(";")[0])


def _folder(name: str, text: str) -> Path:
    try:
        # Not resolved: a link may be how an operator names the place, and moves it later.
        path = Path(os.path.abspath(Path(text).expanduser()))
        is_file = path.exists() and not path.is_dir()
    except (OSError, RuntimeError) as error:
        raise SettingsError(
            f"{name} is {text!r:.200}, which is no place that can be used: "
            f"{getattr(error, 'strerror', None) or str(error).rstrip('.')}. Set it to a folder of yours."
        ) from error
    if is_file:
        raise SettingsError(f"{name} is {text!r}, which is a file. Set it to a folder.")
    return path


def _home(text: str) -> Path:
    home = _folder("PIPELINE_HOME", text)
    if why := unusable(str(home)):
        raise SettingsError(f"PIPELINE_HOME is {text!r:.200}, and its store cannot be there, since {why}")
    unfit = next((character for character in _UNFIT if character in str(home)), None)
    if unfit is not None:
        raise SettingsError(
            f"PIPELINE_HOME is {text!r:.200}, and the Spark server takes no folder with {unfit!r} in its "
            "name. Set it to another folder."
        )
    return home


def _store(text: str) -> str:
    if why := unusable(text):
        raise SettingsError(f"PIPELINE_STORE is {text!r:.200}, where no Delta table can be, since {why}")
    scheme = _SCHEME.match(text)
    if scheme is None:
        return str(_folder("PIPELINE_STORE", text))
    if scheme[1] not in _STORE_SCHEMES:
        raise SettingsError(
            f"PIPELINE_STORE is {text!r}, and {scheme[1]!r} is no scheme that Spark, deltalake and "
            f"Polars all know. Set it to a path or to a URI of {', '.join(_STORE_SCHEMES)}."
        )
    rest = text[scheme.end() :]
    if scheme[1] == "file" and not rest.startswith("/"):
        raise SettingsError(
            f"PIPELINE_STORE is {text!r}, which is not absolute. Set it to a path or to file:///…"
        )
    if scheme[1] != "file" and not re.match("//[^/]", rest):
        raise SettingsError(
            f"PIPELINE_STORE is {text!r}, which names no bucket. Set it to {scheme[1]}://bucket/…"
        )
    return absolute(text.rstrip("/"))


def _umask(text: str) -> int:
    if not re.fullmatch("0?[0-7]{3}", text) or text[-3] != "0":
        raise SettingsError(
            f"PIPELINE_UMASK is {text!r}; set it to an octal number that leaves you all rights, such as "
            "077 or 027."
        )
    return int(text, 8)


def _deployment(text: str) -> str | None:
    if not text:
        return None
    if not re.fullmatch(r"\w[\w.-]{0,99}", text):
        raise SettingsError(
            f"PIPELINE_DEPLOYMENT is {text!r:.200}; set it to a name of letters, digits, '.', '_' and '-', "
            "at most 100 of them."
        )
    return text


def _topologies(text: str) -> tuple[str, ...]:
    setting, names = "PIPELINE_TOPOLOGIES", text.split(",")
    if not text:
        setting, names = "[tool.acker] of pyproject.toml", project_topologies()
    stripped = [name.strip() for name in names]
    for name in filter(None, stripped):
        if not _IMPORT_STRING.match(name):
            raise SettingsError(
                f"{setting} names {name!r}, which is no import string. "
                "Write package.module:attribute, with commas between several."
            )
    return tuple(filter(None, stripped))


def _names(text: str) -> tuple[str, ...]:
    return tuple(filter(None, (name.strip() for name in text.split(","))))


def _notifier(text: str) -> str | None:
    if text and not _IMPORT_STRING.match(text):
        raise SettingsError(
            f"PIPELINE_APPROVAL_NOTIFIER is {text!r:.200}, which is no import string. Write "
            "package.module:attribute."
        )
    return text or None


def _remote(text: str) -> str | None:
    if not text:
        return None
    match = _REMOTE.fullmatch(text)
    if match is None or int(match[1] or 0) > _LARGEST_PORT:
        raise SettingsError(
            f"SPARK_REMOTE is {without_secrets(text)!r:.200}, which is no Spark Connect server. "
            "Set it to sc://host:port, or unset it to use the project's own server."
        )
    return text


def _master(text: str) -> str:
    if text != _LOCAL and _MASTER.fullmatch(text) is None:
        raise SettingsError(
            f"PIPELINE_SPARK_MASTER is {text!r:.200}, which is no master of a Spark cluster. Set it to "
            f"spark://host:port, or unset it to run Spark's jobs on this machine."
        )
    return text


def _address(text: str, token: str | None) -> str:
    if text not in (LOOPBACK, EVERYWHERE):
        raise SettingsError(
            f"PIPELINE_SERVER_ADDRESS is {text!r}. Set it to {LOOPBACK}, for this machine alone, or to "
            f"{EVERYWHERE}, for all networks."
        )
    if text != LOOPBACK and token is None:
        raise SettingsError(
            f"A Spark server that listens on {text} runs the code of whoever reaches it. Set "
            "SPARK_CONNECT_AUTHENTICATE_TOKEN to a long random text, for the server and for its clients, or "
            "unset PIPELINE_SERVER_ADDRESS."
        )
    return text


def _memory(text: str) -> str:
    if not _MEMORY.match(text):
        raise SettingsError(
            f"PIPELINE_DRIVER_MEMORY is {text!r}, which is no amount of memory. Set it to one such as 4g."
        )
    return text.lower()


def _acker_tasks(text: str, is_here: bool) -> int | None:
    """See `Settings`.

    Args:
        is_here: whether Spark is the project's own server and its jobs run on this machine.
    """
    if text == _AUTO:
        return 1 if is_here else None
    if not re.fullmatch("0*[1-9][0-9]{0,8}", text):
        raise SettingsError(
            f"PIPELINE_ACKER_TASKS is {text!r}; set it to {_AUTO} or to a whole number, 1 or more."
        )
    return int(text)


def _number(name: str, text: str) -> int:
    if not re.fullmatch("[0-9]{1,9}", text):
        raise SettingsError(f"{name} is {text!r}; set it to a whole number, 0 or more.")
    return int(text)


def _reason_retention(name: str, days: int) -> int:
    if days > _MOST_REASON_RETENTION_DAYS:
        raise SettingsError(
            f"{name} is {str(days)!r}; set it to a number of days up to {_MOST_REASON_RETENTION_DAYS:,}, "
            "or to 0, which keeps reasons for ever."
        )
    return days


def _file_retention(name: str, hours: int) -> int:
    """Hours that are longer than any step takes from writing its files to committing them."""
    if hours < _LEAST_FILE_RETENTION_HOURS:
        raise SettingsError(
            f"{name} is {str(hours)!r}; set it to {_LEAST_FILE_RETENTION_HOURS} or more. Files that a step "
            "has written and not committed yet would be deleted."
        )
    return hours

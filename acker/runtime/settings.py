"""The settings of a deployment: read once from the environment, checked, and frozen.

Only the registered topologies may stand in the project's file instead.
"""

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from acker.core.errors import SettingsError
from acker.core.paths import absolute, unusable
from acker.runtime.project import project_topologies
from acker.topology.schedule import Schedule, longest_pause

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
_MOST_REASON_RETENTION_DAYS = 36_500
_LEAST_FILE_RETENTION_HOURS = 24  # what the store's tables promise their readers as well
_MASTER = re.compile(r"spark://[^/:;@\s]+:[0-9]{1,5}(,[^/:;@\s]+:[0-9]{1,5})*")  # of several one leads

Found = Mapping[str, Any]  # the settings that were read before, by attribute


def positive_number(name: str, default: int, environ: Mapping[str, str] = os.environ) -> int:
    """The value of an environment variable that is a whole number, 1 or more.

    Raises:
        SettingsError: the value is no such number.
    """
    text = environ.get(name, "").strip() or str(default)
    if not re.fullmatch("0*[1-9][0-9]{0,8}", text):
        raise SettingsError(f"{name} is {text!r}; set it to a whole number, 1 or more.")
    return int(text)


def one_of(name: str, values: Sequence[str], environ: Mapping[str, str] = os.environ) -> str:
    """The value of an environment variable, one of some values; the first of them where it is not set.

    Raises:
        SettingsError: the value is none of them.
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


def _home(name: str, text: str, found: Found) -> Path:
    home = _folder(name, text)
    if why := unusable(str(home)):
        raise SettingsError(f"PIPELINE_HOME is {text!r:.200}, and its store cannot be there, since {why}")
    unfit = next((character for character in _UNFIT if character in str(home)), None)
    if unfit is not None:
        raise SettingsError(
            f"PIPELINE_HOME is {text!r:.200}, and the Spark server takes no folder with {unfit!r} in its "
            "name. Set it to another folder."
        )
    return home


def _store(name: str, text: str, found: Found) -> str:
    if not text:
        return str(found["home"] / "store")
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


def _umask(name: str, text: str, found: Found) -> int:
    if not re.fullmatch("0?[0-7]{3}", text) or text[-3] != "0":
        raise SettingsError(
            f"PIPELINE_UMASK is {text!r}; set it to an octal number that leaves you all rights, such as "
            "077 or 027."
        )
    return int(text, 8)


def _deployment(name: str, text: str, found: Found) -> str | None:
    if not text:
        return None
    if not re.fullmatch(r"\w[\w.-]{0,99}", text):
        raise SettingsError(
            f"PIPELINE_DEPLOYMENT is {text!r:.200}; set it to a name of letters, digits, '.', '_' and '-', "
            "at most 100 of them."
        )
    return text


def _topologies(name: str, text: str, found: Found) -> tuple[str, ...]:
    names = text.split(",")
    if not text:
        name, names = "[tool.acker] of pyproject.toml", project_topologies()
    stripped = [each.strip() for each in names]
    for each in filter(None, stripped):
        if not _IMPORT_STRING.match(each):
            raise SettingsError(
                f"{name} names {each!r}, which is no import string. "
                "Write package.module:attribute, with commas between several."
            )
    return tuple(filter(None, stripped))


def _names(name: str, text: str, found: Found) -> tuple[str, ...]:
    return tuple(filter(None, (each.strip() for each in text.split(","))))


def _notifier(name: str, text: str, found: Found) -> str | None:
    if text and not _IMPORT_STRING.match(text):
        raise SettingsError(
            f"PIPELINE_APPROVAL_NOTIFIER is {text!r:.200}, which is no import string. Write "
            "package.module:attribute."
        )
    return text or None


def _remote(name: str, text: str, found: Found) -> str | None:
    if not text:
        return None
    match = _REMOTE.fullmatch(text)
    if match is None or int(match[1] or 0) > _LARGEST_PORT:
        raise SettingsError(
            f"SPARK_REMOTE is {without_secrets(text)!r:.200}, which is no Spark Connect server. "
            "Set it to sc://host:port, or unset it to use the project's own server."
        )
    return text


def _master(name: str, text: str, found: Found) -> str:
    if text != _LOCAL and _MASTER.fullmatch(text) is None:
        raise SettingsError(
            f"PIPELINE_SPARK_MASTER is {text!r:.200}, which is no master of a Spark cluster. Set it to "
            f"spark://host:port, or unset it to run Spark's jobs on this machine."
        )
    return text


def _address(name: str, text: str, found: Found) -> str:
    if text not in (LOOPBACK, EVERYWHERE):
        raise SettingsError(
            f"PIPELINE_SERVER_ADDRESS is {text!r}. Set it to {LOOPBACK}, for this machine alone, or to "
            f"{EVERYWHERE}, for all networks."
        )
    if text != LOOPBACK and found["token"] is None:
        raise SettingsError(
            f"A Spark server that listens on {text} runs the code of whoever reaches it. Set "
            "SPARK_CONNECT_AUTHENTICATE_TOKEN to a long random text, for the server and for its clients, or "
            "unset PIPELINE_SERVER_ADDRESS."
        )
    return text


def _memory(name: str, text: str, found: Found) -> str:
    if not _MEMORY.match(text):
        raise SettingsError(
            f"PIPELINE_DRIVER_MEMORY is {text!r}, which is no amount of memory. Set it to one such as 4g."
        )
    return text.lower()


def _acker_tasks(name: str, text: str, found: Found) -> int | None:
    if text == _AUTO:
        is_here = found["remote"] is None and found["spark_master"] == _LOCAL
        return 1 if is_here else None
    if not re.fullmatch("0*[1-9][0-9]{0,8}", text):
        raise SettingsError(
            f"PIPELINE_ACKER_TASKS is {text!r}; set it to {_AUTO} or to a whole number, 1 or more."
        )
    return int(text)


def _number(name: str, text: str, found: Found) -> int:
    if not re.fullmatch("[0-9]{1,9}", text):
        raise SettingsError(f"{name} is {text!r}; set it to a whole number, 0 or more.")
    return int(text)


def _reason_retention(name: str, text: str, found: Found) -> int:
    days = _number(name, text, found)
    if days > _MOST_REASON_RETENTION_DAYS:
        raise SettingsError(
            f"{name} is {str(days)!r}; set it to a number of days up to {_MOST_REASON_RETENTION_DAYS:,}, "
            "or to 0, which keeps reasons for ever."
        )
    return days


def _file_retention(name: str, text: str, found: Found) -> int:
    """A retention in hours, longer than any step takes from writing its files to committing them."""
    hours = _number(name, text, found)
    if hours < _LEAST_FILE_RETENTION_HOURS:
        raise SettingsError(
            f"{name} is {str(hours)!r}; set it to {_LEAST_FILE_RETENTION_HOURS} or more. Files that a step "
            "has written and not committed yet would be deleted."
        )
    return hours


def _text(name: str, text: str, found: Found) -> str:
    return text


def _token(name: str, text: str, found: Found) -> str | None:
    return text or None


def _positive(name: str, text: str, found: Found) -> int:
    return positive_number(name, 0, {name: text})


def _self_approval(name: str, text: str, found: Found) -> str:
    return one_of(name, (_AUTO, "on", "off"), {name: text})


def _jars(name: str, text: str, found: Found) -> Path | None:
    return _folder(name, text) if text else None


@dataclass(frozen=True)
class Setting:
    """One setting: its environment variable, its default, and the function that reads its value.

    Args:
        variable: the environment variable.
        default: the text that counts where the variable is not set; empty where the default is no text.
        parse: makes the value from the variable's name, its text and the settings read before, and raises a
            `SettingsError` where the text cannot serve.
        shown: the default in Markdown, as the pages of settings show it.
    """

    variable: str
    default: str
    parse: Callable[[str, str, Found], Any]
    shown: str


def _setting(
    variable: str,
    default: str,
    parse: Callable[[str, str, Found], Any],
    *,
    shown: str = "",
    is_secret: bool = False,
) -> Any:
    is_code = default and not default.isdecimal()
    by_default = shown or (f"`{default}`" if is_code else default)
    setting = Setting(variable, default, parse, by_default)
    return field(repr=not is_secret, metadata={"setting": setting})


@dataclass(frozen=True)
class Settings:
    """The settings of a deployment. A variable that is empty counts as not set.

    Each attribute is one `Setting`. `make reference` writes the settings into the pages of the docs, each
    with the text below its attribute.
    """

    home: Path = _setting("PIPELINE_HOME", "data", _home, shown="`data` in the current folder")
    """Folder of the Spark server's state and logs; no name in it has a quote or a colon, or [what a Delta
    table's has not](../how-to/errors.md#messages-of-errors).
    """
    store: str = _setting("PIPELINE_STORE", "", _store, shown="`store` below `PIPELINE_HOME`")
    """Path or URI below which all tables are: a path, `file:`, `s3:`, `abfss:` or `gs:`."""
    umask: int = _setting("PIPELINE_UMASK", "077", _umask)
    """Octal number: the rights that others do not get on what commands, tasks and servers write; 027 lets a
    group read.
    """
    deployment: str | None = _setting(
        "PIPELINE_DEPLOYMENT",
        "",
        _deployment,
        shown="kept in `deployment` below `PIPELINE_HOME`, made of the host's name and chance; a copy of "
        "that folder gets another",
    )
    """Name by which machines that [work on one store
    together](../how-to/cluster.md#several-machines-one-deployment) know each other.
    """
    topologies: tuple[str, ...] = _setting(
        "PIPELINE_TOPOLOGIES", "", _topologies, shown="those of `pyproject.toml`, none without it"
    )
    """Registered topologies, `package.module:attribute`, with commas between them."""
    remote: str | None = _setting(
        "SPARK_REMOTE", "", _remote, shown="none: the project starts its own", is_secret=True
    )
    """`sc://host:port` of a Spark Connect server that somebody else runs."""
    token: str | None = _setting(
        "SPARK_CONNECT_AUTHENTICATE_TOKEN",
        "",
        _token,
        shown="each server of the project's own generates one",
        is_secret=True,
    )
    """The token that clients show to the Spark server, see [security](security.md#the-spark-server)."""
    server_address: str = _setting("PIPELINE_SERVER_ADDRESS", "127.0.0.1", _address)
    """Where its own server listens: `127.0.0.1`, or `0.0.0.0`, which needs a token."""
    spark_master: str = _setting(
        "PIPELINE_SPARK_MASTER", "local[*]", _master, shown="`local[*]`, this machine"
    )
    """`spark://host:port` of the master of a [cluster](../how-to/cluster.md) on which its own server runs
    its jobs.
    """
    driver_memory: str = _setting("PIPELINE_DRIVER_MEMORY", "4g", _memory)
    """Heap of the project's own server."""
    jars: Path | None = _setting(
        "PIPELINE_JARS", "", _jars, shown="fetched once, below `share/acker` of the Python environment"
    )
    """Folder of the jars that its own server loads."""
    acker_tasks: int | None = _setting("PIPELINE_ACKER_TASKS", "auto", _acker_tasks)
    """How many tasks do the work of a log or of a fold (Storm's `topology.acker.executors`). 1: the process
    that calls. More: tasks of one Spark job, on its executors. `auto`: one where the jobs of Spark run on
    this machine, by the project's own server; else one for each million rows, and below two million the
    process that calls.
    """
    fold_rows: int = _setting("PIPELINE_FOLD_ROWS", "8000000", _positive)
    """How many events and messages in flight a task holds in memory at once, 0.2 to 0.4 KB each, by [what
    becomes of them](performance.md#many-messages). 0.75 KB was seen once, so reckon with 6 GB at the
    default. Of more there are more tasks, and where the process that calls does the work, it does one after
    the other.
    """
    run_schedule: str = _setting("PIPELINE_RUN_SCHEDULE", "@watch", _text)
    """[Schedule](#schedules) of the topologies without one of their own: `@watch`, a preset or a cron
    expression, UTC.
    """
    acker_schedule: str = _setting("PIPELINE_ACKER_SCHEDULE", "@watch", _text)
    """The same for the acker."""
    watch_seconds: int = _setting("PIPELINE_WATCH_SECONDS", "60", _positive)
    """How often `@watch` looks."""
    maintain_schedule: str = _setting("PIPELINE_MAINTAIN_SCHEDULE", "0 3 * * *", _text, shown="03:00")
    """Cron expression, UTC."""
    stream_retention_hours: int = _setting("PIPELINE_STREAM_RETENTION_HOURS", "168", _number)
    """How long streams keep tuples that no message in flight and no published table needs."""
    event_retention_hours: int = _setting("PIPELINE_EVENT_RETENTION_HOURS", "168", _number)
    """How long `events` keeps what was folded."""
    reason_retention_days: int = _setting(
        "PIPELINE_REASON_RETENTION_DAYS",
        "0",
        _reason_retention,
        shown="0: reasons that are gone do not come back, so who has personal data chooses",
    )
    """After how many days the reasons of what has settled [become
    `expired`](../how-to/personal-data.md#let-reasons-expire); 0 keeps them for ever.
    """
    file_retention_hours: int = _setting("PIPELINE_FILE_RETENTION_HOURS", "168", _file_retention)
    """How long Delta keeps files that the newest version of a table no longer has; 24 or more, so that none
    goes that a step has written and not committed yet.
    """
    approval_limit: int = _setting("PIPELINE_APPROVAL_LIMIT", "1000", _number)
    """A manual replay of more messages waits for a person."""
    approval_hours: int = _setting("PIPELINE_APPROVAL_HOURS", "24", _positive)
    """How long it waits before it counts as rejected."""
    self_approval: str = _setting("PIPELINE_SELF_APPROVAL", "auto", _self_approval)
    """Whether who asked for a replay may approve it: `on`, `off`, or `auto`, where Airflow's configuration
    knows no other user.
    """
    approvers: tuple[str, ...] = _setting("PIPELINE_APPROVERS", "", _names, shown="every user")
    """The users that may approve or reject one, with commas between them: their names under the simple auth
    manager, what `get_id()` of another one says.
    """
    approval_notifier: str | None = _setting("PIPELINE_APPROVAL_NOTIFIER", "", _notifier)
    """The import string of what is called when one waits: a function of the task's context, or a notifier
    of Airflow.
    """
    settle_minutes: int = _setting("PIPELINE_SETTLE_MINUTES", "1440", _positive)
    """For how long a replay's DAG waits until what it emitted has settled."""
    monitor_schedule: str = _setting(
        "PIPELINE_MONITOR_SCHEDULE", "*/5 * * * *", _text, shown="every 5 minutes"
    )
    """When `<topology>.monitor` looks: a cron expression, UTC, or a preset."""
    dead_letters_allowed: int = _setting("PIPELINE_DEAD_LETTERS_ALLOWED", "0", _number)
    """Dead letters that nobody has acknowledged before the monitor's `check` fails."""
    backlog_allowed: int = _setting("PIPELINE_BACKLOG_ALLOWED", "1000000", _number)
    """Messages in flight or waiting for a retry before it fails."""
    backlog_ahead_hours: int = _setting("PIPELINE_BACKLOG_AHEAD_HOURS", "4", _number)
    """It fails too where that number, by what it grew by in the last hour, will be passed within so many
    hours; 0: not.
    """
    give_up_after_tries: int = _setting("PIPELINE_GIVE_UP_AFTER_TRIES", "0", _number)
    """After how many tries a batch that raises through no fault of a row is [given
    up](../how-to/when-a-bolt-raises.md#errors-that-are-no-rows-fault): its messages fail and are replayed;
    0 never.
    """
    acker_late_minutes: int = _setting("PIPELINE_ACKER_LATE_MINUTES", "15", _number)
    """Age of events that no fold has seen before it fails."""
    batch_late_minutes: int = _setting("PIPELINE_BATCH_LATE_MINUTES", "60", _number)
    """Age of a batch that is not done, of a fold that is not published, beyond the longest pause between
    two runs of the schedule, and, of a spout that is watched, of what it does not read, before it fails.
    """
    retry_late_minutes: int = _setting("PIPELINE_RETRY_LATE_MINUTES", "60", _number)
    """For how long a message whose next attempt is due may not be emitted, beyond the longest pause of the
    acker's schedule, before it fails.
    """
    upkeep_late_minutes: int = _setting("PIPELINE_UPKEEP_LATE_MINUTES", "1440", _number)
    """For how long the audit, trim, compact and vacuum may each not have ended, beyond the longest pause of
    the maintenance, before it fails; 0: for ever.
    """
    backup_late_minutes: int = _setting("PIPELINE_BACKUP_LATE_MINUTES", "0", _number)
    """How old the newest backup may be before it fails; 0: there need be none."""
    alarm_again_minutes: int = _setting("PIPELINE_ALARM_AGAIN_MINUTES", "1440", _number)
    """After how long it tells again of what stands; 0: never."""
    message_late_minutes: int = _setting("PIPELINE_MESSAGE_LATE_MINUTES", "1440", _number)
    """Age of a message that has not settled before it fails."""
    publish_late_minutes: int = _setting("PIPELINE_PUBLISH_LATE_MINUTES", "1440", _number)
    """For how long acked messages may be unpublished, beyond the longest pause between two runs of the
    schedule, before an audit fails; 0: for ever.
    """
    source_late_minutes: int = _setting("PIPELINE_SOURCE_LATE_MINUTES", "0", _number)
    """Age of what a spout has yet to read before it fails; 0: any."""
    disk_free_percent: int = _setting("PIPELINE_DISK_FREE_PERCENT", "10", _number)
    """How much of each disk, and of its inodes, has to be free, or it fails."""
    task_timeout_minutes: int = _setting("PIPELINE_TASK_TIMEOUT_MINUTES", "360", _positive)
    """After which Airflow ends a task and tries it again."""
    airflow_retention_days: int = _setting("PIPELINE_AIRFLOW_RETENTION_DAYS", "90", _number)
    """How long Airflow's database and logs are [kept](#old-runs-and-logs); 0: for ever."""

    @property
    def is_on_s3(self) -> bool:
        """Whether the store is on S3."""
        return self.store.startswith("s3a:")

    @property
    def is_on_cluster(self) -> bool:
        """Whether the project's own server runs its jobs on a cluster."""
        return self.spark_master != _LOCAL

    @property
    def upkeep_late(self) -> dict[str, timedelta]:
        """Step of the upkeep -> the time within which it has to end again; a missing step has no limit."""
        late, backup = (
            timedelta(minutes=self.upkeep_late_minutes),
            timedelta(minutes=self.backup_late_minutes),
        )
        pause = longest_pause(self.maintain_schedule)
        steps = dict.fromkeys(("audit", "trim", "compact", "vacuum"), late + pause) if late else {}
        return steps | ({"backup": backup} if backup else {})

    def overdue_before(self, schedule: Schedule, now: datetime) -> datetime | None:
        """The limit of an audit: messages acked before this time must be published; None: there is no limit.

        Args:
            schedule: the topology's own schedule; None where it has the deployment's.
            now: the present time.
        """
        late = timedelta(minutes=self.publish_late_minutes)
        return now - late - self.longest_pause(schedule) if late else None

    def longest_pause(self, schedule: Schedule) -> timedelta:
        """The longest time between two runs of a topology's schedule; zero where no clock sets the runs."""
        return longest_pause(self.run_schedule if schedule is None else schedule)

    @classmethod
    def declared(cls) -> dict[str, Setting]:
        """Attribute -> its setting."""
        return {each.name: each.metadata["setting"] for each in fields(cls)}

    @classmethod
    def from_env(cls, environ: Mapping[str, str] = os.environ) -> "Settings":
        """Read the settings from environment variables.

        Raises:
            SettingsError: A variable has a value that cannot serve.
        """
        found: dict[str, Any] = {}
        for name, setting in cls.declared().items():
            text = environ.get(setting.variable, "").strip() or setting.default
            found[name] = setting.parse(setting.variable, text, found)
        return cls(**found)

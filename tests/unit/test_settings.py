from datetime import UTC, datetime
from pathlib import Path

import pytest

from acker.core.errors import SettingsError
from acker.core.tasks import ROWS_AT_ONCE
from acker.runtime.settings import Settings, one_of, positive_number


def test_an_empty_environment_gives_the_defaults(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert Settings.from_env({}) == Settings(
        home=tmp_path / "data",
        store=str(tmp_path / "data" / "store"),
        umask=0o077,
        deployment=None,
        topologies=(),
        remote=None,
        token=None,
        server_address="127.0.0.1",
        spark_master="local[*]",
        driver_memory="4g",
        run_schedule="@watch",
        acker_schedule="@watch",
        watch_seconds=60,
        acker_tasks=1,
        fold_rows=ROWS_AT_ONCE,
        maintain_schedule="0 3 * * *",
        stream_retention_hours=168,
        event_retention_hours=168,
        reason_retention_days=0,
        file_retention_hours=168,
        approval_limit=1000,
        approval_hours=24,
        self_approval="auto",
        approvers=(),
        approval_notifier=None,
        settle_minutes=1440,
        dead_letters_allowed=0,
        backlog_allowed=1_000_000,
        backlog_ahead_hours=4,
        acker_late_minutes=15,
        give_up_after_tries=0,
        source_late_minutes=0,
        batch_late_minutes=60,
        publish_late_minutes=1440,
        message_late_minutes=1440,
        retry_late_minutes=60,
        upkeep_late_minutes=1440,
        backup_late_minutes=0,
        alarm_again_minutes=1440,
        disk_free_percent=10,
        monitor_schedule="*/5 * * * *",
        task_timeout_minutes=360,
        airflow_retention_days=90,
        jars=None,
    )


def test_every_variable_is_read():
    environ = {
        "PIPELINE_HOME": "/srv/pipeline",
        "PIPELINE_STORE": "s3://bucket/store/",
        "PIPELINE_DEPLOYMENT": "north-1",
        "PIPELINE_UMASK": "0027",
        "PIPELINE_TOPOLOGIES": "a:one, b.c:two,",
        "SPARK_REMOTE": "sc://spark.internal:15002",
        "SPARK_CONNECT_AUTHENTICATE_TOKEN": "secret",
        "PIPELINE_SERVER_ADDRESS": "0.0.0.0",
        "PIPELINE_SPARK_MASTER": "spark://one:7077,two:7077",
        "PIPELINE_DRIVER_MEMORY": "512M",
        "PIPELINE_RUN_SCHEDULE": "*/5 * * * *",
        "PIPELINE_ACKER_SCHEDULE": "*/2 * * * *",
        "PIPELINE_WATCH_SECONDS": "5",
        "PIPELINE_ACKER_TASKS": "4",
        "PIPELINE_FOLD_ROWS": "7",
        "PIPELINE_MAINTAIN_SCHEDULE": "@weekly",
        "PIPELINE_STREAM_RETENTION_HOURS": "24",
        "PIPELINE_EVENT_RETENTION_HOURS": "48",
        "PIPELINE_REASON_RETENTION_DAYS": "400",
        "PIPELINE_FILE_RETENTION_HOURS": "240",
        "PIPELINE_APPROVAL_LIMIT": "10",
        "PIPELINE_APPROVAL_HOURS": "2",
        "PIPELINE_SELF_APPROVAL": "off",
        "PIPELINE_APPROVERS": "ann, bob,",
        "PIPELINE_APPROVAL_NOTIFIER": "alerting:tell",
        "PIPELINE_SETTLE_MINUTES": "90",
        "PIPELINE_DEAD_LETTERS_ALLOWED": "5",
        "PIPELINE_BACKLOG_ALLOWED": "500",
        "PIPELINE_BACKLOG_AHEAD_HOURS": "8",
        "PIPELINE_ACKER_LATE_MINUTES": "30",
        "PIPELINE_GIVE_UP_AFTER_TRIES": "9",
        "PIPELINE_SOURCE_LATE_MINUTES": "45",
        "PIPELINE_BATCH_LATE_MINUTES": "20",
        "PIPELINE_PUBLISH_LATE_MINUTES": "2880",
        "PIPELINE_MESSAGE_LATE_MINUTES": "100",
        "PIPELINE_RETRY_LATE_MINUTES": "30",
        "PIPELINE_UPKEEP_LATE_MINUTES": "4000",
        "PIPELINE_BACKUP_LATE_MINUTES": "5000",
        "PIPELINE_ALARM_AGAIN_MINUTES": "60",
        "PIPELINE_DISK_FREE_PERCENT": "5",
        "PIPELINE_MONITOR_SCHEDULE": "@hourly",
        "PIPELINE_TASK_TIMEOUT_MINUTES": "30",
        "PIPELINE_AIRFLOW_RETENTION_DAYS": "7",
        "PIPELINE_JARS": "/srv/jars",
    }
    assert Settings.from_env(environ) == Settings(
        home=Path("/srv/pipeline"),
        store="s3a://bucket/store",
        umask=0o027,
        deployment="north-1",
        topologies=("a:one", "b.c:two"),
        remote="sc://spark.internal:15002",
        token="secret",
        server_address="0.0.0.0",
        spark_master="spark://one:7077,two:7077",
        driver_memory="512m",
        run_schedule="*/5 * * * *",
        acker_schedule="*/2 * * * *",
        watch_seconds=5,
        acker_tasks=4,
        fold_rows=7,
        maintain_schedule="@weekly",
        stream_retention_hours=24,
        event_retention_hours=48,
        reason_retention_days=400,
        file_retention_hours=240,
        approval_limit=10,
        approval_hours=2,
        self_approval="off",
        approvers=("ann", "bob"),
        approval_notifier="alerting:tell",
        settle_minutes=90,
        dead_letters_allowed=5,
        backlog_allowed=500,
        backlog_ahead_hours=8,
        acker_late_minutes=30,
        give_up_after_tries=9,
        source_late_minutes=45,
        batch_late_minutes=20,
        publish_late_minutes=2880,
        message_late_minutes=100,
        retry_late_minutes=30,
        upkeep_late_minutes=4000,
        backup_late_minutes=5000,
        alarm_again_minutes=60,
        disk_free_percent=5,
        monitor_schedule="@hourly",
        task_timeout_minutes=30,
        airflow_retention_days=7,
        jars=Path("/srv/jars"),
    )


@pytest.mark.parametrize(
    ("environ", "tasks"),
    [
        ({}, 1),
        ({"SPARK_REMOTE": "sc://spark.internal"}, None),
        ({"SPARK_REMOTE": "sc://spark.internal", "PIPELINE_ACKER_TASKS": "1"}, 1),
        ({"PIPELINE_SPARK_MASTER": "spark://host:7077"}, None),
        ({"PIPELINE_ACKER_TASKS": "8"}, 8),
    ],
)
def test_the_acker_s_tasks_are_the_caller_s_where_spark_is_this_machine(environ, tasks):
    assert Settings.from_env(environ).acker_tasks == tasks


def test_an_empty_variable_counts_as_not_set():
    names = ("PIPELINE_HOME", "PIPELINE_STORE", "PIPELINE_TOPOLOGIES", "SPARK_REMOTE", "PIPELINE_JARS")
    assert Settings.from_env(dict.fromkeys(names, "")) == Settings.from_env({})


def test_a_relative_store_becomes_absolute(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert Settings.from_env({"PIPELINE_STORE": "tables"}).store == str(tmp_path / "tables")
    for uri in ("file:///srv/a#b?c", "file://localhost/srv/a#b?c"):
        assert Settings.from_env({"PIPELINE_STORE": uri}).store == "/srv/a#b?c"


@pytest.mark.parametrize(
    ("name", "value", "advice"),
    [
        ("PIPELINE_HOME", __file__, "Set it to a folder"),
        ("PIPELINE_HOME", "/srv/a:b", "Set it to another folder"),
        ("PIPELINE_HOME", '/srv/"a"', "Set it to another folder"),
        ("PIPELINE_STORE", __file__, "Set it to a folder"),
        ("PIPELINE_STORE", "/srv/a%41", "Name a folder without"),
        ("PIPELINE_STORE", "hdfs://host/store", "a URI of file, s3, s3a"),
        ("PIPELINE_STORE", "file:store", "file:///"),
        ("PIPELINE_STORE", "s3:/lake", "names no bucket. Set it to s3://bucket/"),
        ("PIPELINE_STORE", "s3:///lake", "names no bucket"),
        ("PIPELINE_STORE", "abfss:lake", "names no bucket"),
        ("PIPELINE_DEPLOYMENT", "two words", "a name of letters"),
        ("PIPELINE_UMASK", "rwx", "such as 077 or 027"),
        ("PIPELINE_UMASK", "777", "such as 077 or 027"),
        ("PIPELINE_TOPOLOGIES", "pipeline.wordcount", "package.module:attribute"),
        ("SPARK_REMOTE", "local[*]", "sc://host:port"),
        ("SPARK_REMOTE", "sc://", "sc://host:port"),
        ("PIPELINE_SPARK_MASTER", "yarn", "spark://host:port"),
        ("PIPELINE_SPARK_MASTER", "spark://host", "spark://host:port"),
        ("PIPELINE_DRIVER_MEMORY", "lots", "such as 4g"),
        ("PIPELINE_DRIVER_MEMORY", "4096", "such as 4g"),
        ("PIPELINE_APPROVAL_LIMIT", "-1", "a whole number, 0 or more"),
        ("PIPELINE_APPROVAL_HOURS", "0", "a whole number, 1 or more"),
        ("PIPELINE_SELF_APPROVAL", "maybe", "set it to auto or on or off"),
        ("PIPELINE_APPROVAL_NOTIFIER", "alerting.tell", "which is no import string"),
        ("PIPELINE_FILE_RETENTION_HOURS", "0", "set it to 24 or more"),
        ("PIPELINE_FILE_RETENTION_HOURS", "23", "set it to 24 or more"),
        ("PIPELINE_REASON_RETENTION_DAYS", "40000", "a number of days up to 36,500"),
        ("PIPELINE_ACKER_TASKS", "0", "auto or to a whole number, 1 or more"),
        ("PIPELINE_ACKER_TASKS", "many", "auto or to a whole number, 1 or more"),
    ],
)
def test_a_bad_value_is_named_together_with_what_to_write_instead(name, value, advice):
    with pytest.raises(SettingsError) as raised:
        Settings.from_env({name: value})
    assert name in str(raised.value)
    assert repr(value) in str(raised.value)
    assert advice in str(raised.value)


def test_the_size_of_a_command_is_a_positive_number(monkeypatch):
    monkeypatch.setenv("LINES", " 020 ")
    assert positive_number("LINES", 7) == 20
    monkeypatch.setenv("LINES", "")
    assert positive_number("LINES", 7) == 7
    for text in ("0", "-1", "1.5", "many", "1" * 10):
        monkeypatch.setenv("LINES", text)
        with pytest.raises(SettingsError, match=f"LINES is '{text}'; set it to a whole number, 1 or more"):
            positive_number("LINES", 7)


def test_a_choice_is_one_of_its_values_and_the_first_by_default(monkeypatch):
    monkeypatch.setenv("SOURCE", " kafka ")
    assert one_of("SOURCE", ("files", "kafka")) == "kafka"
    monkeypatch.setenv("SOURCE", "")
    assert one_of("SOURCE", ("files", "kafka")) == "files"
    monkeypatch.setenv("SOURCE", "Kafka")
    with pytest.raises(SettingsError, match=r"^SOURCE is 'Kafka'; set it to files or kafka\.$"):
        one_of("SOURCE", ("files", "kafka"))


@pytest.fixture
def project(tmp_path, monkeypatch):
    """Writes the current folder's `pyproject.toml`."""
    monkeypatch.chdir(tmp_path)
    return (tmp_path / "pyproject.toml").write_text


def test_a_project_registers_its_topologies_in_its_own_file(project):
    project('[tool.acker]\ntopologies = ["pipeline.shop:topology", "a:one"]')
    assert Settings.from_env({}).topologies == ("pipeline.shop:topology", "a:one")


def test_the_environment_comes_before_the_project_s_file(project):
    project('[tool.acker]\ntopologies = ["pipeline.shop:topology"]')
    assert Settings.from_env({"PIPELINE_TOPOLOGIES": "a:one"}).topologies == ("a:one",)


def test_a_project_s_file_without_our_table_registers_nothing(project):
    project('[project]\nname = "shop"')
    assert Settings.from_env({}).topologies == ()


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[tool.acker", r"^pyproject.toml of the current folder cannot be read: .*\. Mend the file\.$"),
        ("[tool.acker]\ntopology = []", r"^\[tool.acker\] of pyproject.toml has no setting topology\. "),
        ('[tool.acker]\ntopologies = "a:one"', r"has topologies = 'a:one'\. Write topologies = \["),
        ('[tool.acker]\ntopologies = ["shop"]', r"^\[tool.acker\] of pyproject.toml names 'shop', which "),
    ],
)
def test_what_is_wrong_with_a_project_s_file_is_told(project, text, sentence):
    project(text)
    with pytest.raises(SettingsError, match=sentence):
        Settings.from_env({})


def test_what_waits_for_the_next_run_of_a_schedule_is_not_overdue():
    now = datetime(2026, 3, 15, tzinfo=UTC)
    day, daily, never = (
        Settings.from_env(environ)
        for environ in ({}, {"PIPELINE_RUN_SCHEDULE": "@daily"}, {"PIPELINE_PUBLISH_LATE_MINUTES": "0"})
    )
    found = [day.overdue_before(schedule, now) for schedule in (None, "@watch", "@weekly", ("shop.sales",))]
    assert [each.day for each in found] == [14, 14, 7, 14]
    assert daily.overdue_before(None, now) == datetime(2026, 3, 13, tzinfo=UTC)
    assert never.overdue_before(None, now) is None

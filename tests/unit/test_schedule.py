"""Schedules of topologies, as their authors write them."""

from datetime import timedelta

import pytest

from acker.core.errors import SettingsError
from acker.runtime.manifest import manifest_of
from acker.topology.schedule import PRESETS, checked_schedule, longest_pause
from acker.topology.topology import Topology

CRONS = (
    "* * * * *",
    "0 6 * * mon-fri",
    "*/5 0-6,22 1,15 JAN-mar,12 7",
    "30/10 3 * * *",
    "0  0  29  2  *",
    "0 0 31 2 mon",
    "59 23 31 12 0",
)


@pytest.mark.parametrize("schedule", [*PRESETS, *CRONS])
def test_a_cron_expression_or_preset_is_kept(schedule):
    assert checked_schedule("shop", schedule) == schedule


@pytest.mark.parametrize(
    ("schedule", "why"),
    [
        ("", "has 5 fields, and this has 0"),
        ("0 * * *", "has 5 fields, and this has 4"),
        ("0 0 * * * *", "has 5 fields, and this has 6"),
        ("shop.sales", "has 5 fields, and this has 1"),
        ("@hourley", "has 5 fields, and this has 1"),
        ("60 * * * *", "its minute '60' is not within 0 to 59"),
        ("* 24 * * *", "its hour '24' is not within 0 to 23"),
        ("* * 0 * *", "its day '0' is not within 1 to 31"),
        ("* * * 13 *", "its month '13' is not within 1 to 12"),
        ("* * * * 8", "its day of the week '8' is not within 0 to 7"),
        ("* * * mon *", "its month 'mon' is not within"),
        ("5-1 * * * *", "its minute '5-1' is not within"),
        ("*/0 * * * *", "its minute '[*]/0' is not within"),
        ("1, * * * *", "its minute '' is not within"),
        ("-1 * * * *", "its minute '-1' is not within"),
        ("² * * * *", "its minute '²' is not within"),
        ("0 0 30 feb *", "no month that it names has such a day"),
        ("0 0 31 4,jun *", "no month that it names has such a day"),
    ],
)
def test_what_is_no_schedule_is_refused_when_the_topology_is_built(schedule, why):
    with pytest.raises(SettingsError, match=f"of topology shop is none: .*{why}.*Write five fields"):
        Topology("shop", schedule=schedule)


@pytest.mark.parametrize("asset", ["", " "])
def test_what_is_no_asset_is_refused(asset):
    with pytest.raises(SettingsError, match=r"is no asset for topology shop to wait for\. Write five fields"):
        Topology("shop", schedule=["orders", asset])


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (None, None),
        ("@hourly", "@hourly"),
        (["shop.sales", "s3://bucket/x"], ("shop.sales", "s3://bucket/x")),
        ((), ()),
    ],
)
def test_a_manifest_has_the_schedule(given, kept):
    topology = Topology("shop", schedule=given)
    assert (topology.schedule, manifest_of(topology).schedule) == (kept, kept)


@pytest.mark.parametrize(
    ("schedule", "hours"),
    [
        *(("@watch", 0), ("@hourly", 1), ("@daily", 24), ("@weekly", 168), ("@monthly", 744)),
        *(("@quarterly", 24 * 92), ("@yearly", 24 * 366)),
        ("*/30 * * * *", 0.5),
        ("0 6,18 * * *", 12),
        ("0 9-17 * * mon-fri", 64),  # from Friday at 17:00
        ("30 6 29 2 *", 24 * 1461),
        ("0 0 1 * 1", 168),  # a first of the month or a Monday
        *((None, 0), (("shop.sales",), 0), ("nonsense", 0)),
    ],
)
def test_the_longest_pause_between_two_runs_is_known(schedule, hours):
    assert longest_pause(schedule) == timedelta(hours=hours)

"""Limits of the monitor that suit small runs, with a clock of their own."""

from datetime import timedelta

from acker.reports.looks import Limits

LIMITS = Limits(
    dead_letters=0,
    backlog=10,
    backlog_ahead=timedelta(hours=4),
    acker_late=timedelta(minutes=15),
    batch_late=timedelta(hours=1),
    retry_late=timedelta(hours=1),
    publish_late=timedelta(hours=1),
    message_late=timedelta(days=1),
    source_late=timedelta(0),
    spout_stalled=timedelta(0),
    disk_free_percent=0,
)

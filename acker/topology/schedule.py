"""The schedule of a topology in Airflow, checked without Airflow: a cron expression, a preset, or assets."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, timedelta
from itertools import pairwise

from acker.core.errors import SettingsError
from acker.core.quoting import check_text

Schedule = str | tuple[str, ...] | None  # a cron expression or preset; assets; what the deployment says

WATCH = "@watch"  # whenever a watch in Airflow's triggerer finds something to do
_CRON = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@quarterly": "0 0 1 */3 *",
    "@yearly": "0 0 1 1 *",
}
PRESETS = (WATCH, *_CRON)
_WAY_OUT = (
    "Write five fields such as '0 6 * * mon-fri' (minute, hour, day, month, day of the week), "
    f"one of {', '.join(PRESETS)}, or a list of assets by name or URI."
)
_PART = re.compile(r"(?:(?P<all>\*)|(?P<low>\w+)(?:-(?P<high>\w+))?)(?:/(?P<step>\d+))?")
_CYCLE_DAYS = 28 * 365 + 8  # after which days of the week and leap days come again
_LONGEST_DAYS = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


@dataclass(frozen=True)
class _Field:
    name: str
    low: int
    high: int
    names: tuple[str, ...] = ()  # of the numbers from `low` on


_FIELDS = (
    _Field("minute", 0, 59),
    _Field("hour", 0, 23),
    _Field("day", 1, 31),
    _Field(
        "month", 1, 12, ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
    ),
    _Field("day of the week", 0, 7, ("sun", "mon", "tue", "wed", "thu", "fri", "sat")),
)


def checked_schedule(topology: str, schedule: str | Iterable[str] | None) -> Schedule:
    """Check a schedule, and return it as a manifest holds it.

    Args:
        topology: the topology's name, for the error.
        schedule: the schedule as its author writes it.

    Raises:
        SettingsError: the schedule is neither a cron expression nor a preset nor a list of texts.
    """
    if schedule is None:
        return None
    if not isinstance(schedule, str):
        assets = tuple(schedule)
        for asset in assets:
            if not isinstance(asset, str) or not asset.strip():
                raise SettingsError(f"{asset!r} is no asset for topology {topology} to wait for. {_WAY_OUT}")
            check_text("The asset", asset)
        return assets
    if schedule not in PRESETS:
        fault = _fault(schedule.split())
        if fault:
            raise SettingsError(
                f"The schedule {schedule!r} of topology {topology} is none: {fault}. {_WAY_OUT}"
            )
    return schedule


def longest_pause(schedule: Schedule) -> timedelta:
    """The longest time between two runs of a schedule; zero where no clock sets the runs."""
    texts = _CRON.get(schedule, schedule).split() if isinstance(schedule, str) else []
    if _fault(texts):
        return timedelta(0)
    numbers = [_all_numbers(field, text) for field, text in zip(_FIELDS, texts, strict=True)]
    minutes, hours, days, months, weekdays = numbers
    times = [timedelta(hours=hour, minutes=minute) for hour in sorted(hours) for minute in sorted(minutes)]
    is_any = texts[2].startswith("*") or texts[4].startswith("*")  # else a day of either kind will do

    def runs(day: date) -> bool:
        found = (day.day in days, bool({day.isoweekday(), day.isoweekday() % 7} & weekdays))
        return day.month in months and (all(found) if is_any else any(found))

    first = date(2000, 1, 1)
    on = [day for n in range(_CYCLE_DAYS) if runs(day := first + timedelta(days=n))]
    within = [after - before for before, after in pairwise(times)]
    between = [after - before + times[0] - times[-1] for before, after in pairwise(on)]
    return max(within + between, default=timedelta(0))


def _all_numbers(field: _Field, text: str) -> set[int]:
    return {number for part in text.split(",") for number in _numbers(field, part)}


def _fault(texts: list[str]) -> str | None:
    """The fault of a cron expression; None where it has none."""
    if len(texts) != len(_FIELDS):
        return f"a cron expression has {len(_FIELDS)} fields, and this has {len(texts)}"
    numbers = []
    for field, text in zip(_FIELDS, texts, strict=True):
        found: set[int] = set()
        for part in text.split(","):
            each = _numbers(field, part)
            if not each:
                return f"its {field.name} {part!r} is not within {field.low} to {field.high}"
            found.update(each)
        numbers.append(found)
    _, _, days, months, _ = numbers
    if texts[4] == "*" and min(days) > max(_LONGEST_DAYS[month - 1] for month in months):
        return "no month that it names has such a day"
    return None


def _numbers(field: _Field, part: str) -> range:
    """The numbers that a part of a field stands for; none where the part is not valid."""
    match = _PART.fullmatch(part)
    if match is None:
        return range(0)
    low, high = field.low, field.high
    if not match["all"]:
        low = _number(field, match["low"])
        high = _number(field, match["high"]) if match["high"] else low if not match["step"] else high
    step = int(match["step"] or 1)
    if not (field.low <= low <= high <= field.high and step):
        return range(0)
    return range(low, high + 1, step)


def _number(field: _Field, text: str) -> int:
    """The number that a text writes or names; -1, which is in no field, where it does neither."""
    if text.lower() in field.names:
        return field.low + field.names.index(text.lower())
    return int(text) if text.isascii() and text.isdecimal() else -1

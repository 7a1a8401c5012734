"""Looks at places: disks, the store, the sources, and the targets."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

from acker.core.errors import AckerError
from acker.operations.standing import announce
from acker.reports.looks import EVERYTHING, Finding, Findings, Look, grade_of, minutes_of, time_of
from acker.reports.sources import amounts, unknown
from acker.targets.standing import StandingError, standing_of

_NAMED = 4  # of what lies on a disk
_OF_A_SOURCE = ("late-sources", "stalled-spouts", "changed-sources", "empty-sources")


def store(look: Look) -> Findings:
    """A store that is gone although something was done in it before."""
    if look.has_run:
        return
    where = look.store.path("").rstrip("/")
    try:
        announce(look.topology, look.store)
    except StandingError as fault:
        said = f"There is no store at {where}: it is gone, or this is another path. {fault}"
        yield Finding("store", "", said, hides=EVERYTHING)
    else:
        if look.known_store is not None:
            said = (
                f"There is no store at {where}: it is gone, or this is another path. When something last ran "
                f"it was at {look.known_store}. Mount it, or set PIPELINE_HOME or PIPELINE_STORE."
            )
            yield Finding("store", "", said, hides=EVERYTHING)


def full_disks(look: Look) -> Findings:
    """Disks that are nearly full, or have nearly no inodes left, each once."""
    targets = [("the table " + each.to, _local(each.to)) for each in look.topology.publications.values()]
    places = [("the store", _local(look.store.uri)), *look.places, *targets]
    on_disks: dict[int, list[tuple[str, Path]]] = {}
    for what, folder in places:
        there = folder and next((each for each in (folder, *folder.parents) if each.exists()), None)
        if there is not None:
            on_disks.setdefault(there.stat().st_dev, []).append((what, there))
    for found in on_disks.values():
        names = ", ".join([*dict.fromkeys(what for what, _ in found)][:_NAMED])
        folder, least = found[0][1], look.limits.disk_free_percent
        for free, what in _free(folder):
            if free < least:
                said = (
                    f"The disk of {names} ({folder}) has {free} % of its {what} free, less than the {least} "
                    "of PIPELINE_DISK_FREE_PERCENT."
                )
                yield Finding("full-disks", f"{folder} {what}", said, grade=grade_of(free))


def _free(folder: Path) -> Iterator[tuple[int, str]]:
    """How many percent of a disk's space, and of its inodes where it counts them, users have left."""
    found = os.statvfs(folder)
    for free, used, what in (
        (found.f_bavail, found.f_blocks - found.f_bfree, "space"),
        (found.f_favail, found.f_files - found.f_ffree, "inodes"),
    ):
        if free + used > 0:
            yield 100 * free // (free + used), what


def _local(uri: str) -> Path | None:
    """The folder of a path or of a URI of a file; None for a place that is not on this machine's disks."""
    parts = urlsplit(uri)
    if parts.scheme == "file":
        return Path(unquote(parts.path))
    return Path(uri) if uri.startswith("/") else None


def late_sources(look: Look) -> Findings:
    """Sources whose input is unread for long."""
    late = look.limits.source_late
    for source in look.sources if late else ():
        if source.unread and source.oldest and look.now - source.oldest > late:
            said = (
                f"{source.spout} has {amounts(source.unread)} unread, the oldest of "
                f"{time_of(source.oldest)}, longer than the {minutes_of(late)} of "
                f"PIPELINE_SOURCE_LATE_MINUTES: look at the DAG {look.topology.name}.run."
            )
            yield Finding("late-sources", source.spout, said)


def stalled_spouts(look: Look) -> Findings:
    """Spouts that read nothing for long although their source has unread input."""
    late = look.limits.spout_stalled
    for source in look.sources if late else ():
        if source.unread and source.oldest and look.journal.unfinished(source.spout) is None:
            newest = look.journal.newest_of(source.spout, "next")
            since = max(source.oldest, newest.planned_at) if newest else source.oldest
            if look.now - since > late:
                said = (
                    f"{source.spout} has {amounts(source.unread)} to read and reads nothing since "
                    f"{time_of(since)}, longer than the {minutes_of(late)} of PIPELINE_BATCH_LATE_MINUTES: "
                    f"look at the DAG {look.topology.name}.run."
                )
                yield Finding("stalled-spouts", source.spout, said)


def quiet_sources(look: Look) -> Findings:
    """Spouts that have read nothing new for longer than their topology expects."""
    late = look.topology.expects
    for spout in look.topology.spouts if late else ():
        newest = look.journal.newest_of(spout.name, "next")
        since = newest.planned_at if newest else look.journal.first_planned_at
        if late and since and look.now - since > late:
            often = "has read nothing new since" if newest else "has read nothing at all; others began at"
            said = (
                f"{spout.name} {often} {time_of(since)}, longer than the {minutes_of(late)} in which its "
                "topology expects something (`expects`)."
            )
            yield Finding("quiet-sources", spout.name, said)


def changed_sources(look: Look) -> Findings:
    """Sources with parts that have changed since they were read."""
    for source in look.sources:
        if source.changed is not None:
            said = (
                f"{source.spout} has what changed since it was read, and is not read again: {source.changed}."
            )
            yield Finding("changed-sources", source.spout, said, grade=grade_of(source.changed.count))


def empty_sources(look: Look) -> Findings:
    """Sources that are empty now, although their spouts have read something there before."""
    for source in look.sources:
        if source.is_empty and source.gone is not None:
            said = f"The source of {source.spout} is empty, and was read: {source.gone}."
            yield Finding("empty-sources", source.spout, said)


def unreachable_sources(look: Look) -> Findings:
    """Sources that could not be looked at."""
    for name, why in unknown(look.sources).items():
        said = f"The source of {name} cannot be looked at: {why.rstrip('.')}."
        hides = tuple((kind, name) for kind in _OF_A_SOURCE)
        yield Finding("unreachable-sources", name, said, hides=hides)


def publishers(look: Look) -> Findings:
    """Targets that lack published rows, hold rows of another store, or could not be looked at."""
    for name, publication in look.topology.publications.items():
        try:
            if look.journal.fold is not None:
                standing_of(look.journal, publication.target.pinned(), name)
        except AckerError as fault:
            yield Finding("publishers", name, str(fault))


OF_SOURCES: tuple[Callable[[Look], Findings], ...] = (
    unreachable_sources,
    late_sources,
    stalled_spouts,
    quiet_sources,
    changed_sources,
    empty_sources,
)

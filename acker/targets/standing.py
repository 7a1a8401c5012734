"""The standing of a publisher: whether its store and its target agree, before anything is published.

The store may be behind, since a fold goes into the target first. All other differences are refused and told:
a target that is gone, was made anew or holds less than it did, and rows that another store has published.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from acker.core.errors import StoreError
from acker.core.names import called
from acker.core.snapshot.publishers import Known, has_met, known_of
from acker.core.snapshot.snapshot import Snapshot
from acker.core.store.identity import ids_of
from acker.core.store.schemas import LEDGER
from acker.core.store.store import Store
from acker.targets.base import Note, Publisher, Target, position_of, published_fold


class StandingError(StoreError):
    """A store and a target do not agree on where a publisher stands."""


@dataclass(frozen=True)
class Standing:
    """The standing of a publisher, by its store and by its target.

    Args:
        fold: the newest fold that the target has taken in.
        own: the newest fold that the target has under the publisher's own id, and not that of a former one.
        held: the newest fold whose rows the target still has.
        target_id: the id of the target; None where the target is not there yet.
        known: the store's own record of the publisher.
        stranger: the newest note of a store that should not publish to the target; None where there is none.
        fault: the reason why nothing is published, with the remedy; None where store and target agree.
    """

    publisher: Publisher
    fold: int
    own: int
    held: int
    target_id: str | None
    known: Known
    stranger: Note | None = None
    fault: str | None = None


def standing_of(snapshot: Snapshot, target: Target, stream: str) -> Standing:
    """The standing of a stream's publisher, on which store and target agree.

    Args:
        target: a pinned target.

    Raises:
        StandingError: store and target do not agree.
        StoreError: the target has a newer fold than the ledger. The ledger would give the number of that fold
            to another one.
    """
    published_fold(snapshot, target, stream)
    standing = judged(snapshot, target, stream)
    if standing.fault:
        raise StandingError(standing.fault, component=stream, table=target.uri)
    return standing


def check_new(target: Target, store: Store, stream: str) -> None:
    """Refuse to make a store whose target has rows that another store has published.

    Raises:
        StandingError: the target has such rows; the error names the other store.
    """
    note = next(target.notes(), None)
    if note is not None or target.has_rows():
        raise StandingError(_said_of(note, target, store, stream, {}), component=stream, table=target.uri)


def judged(snapshot: Snapshot, target: Target, stream: str) -> Standing:
    """The standing of a stream's publisher, with its fault, if any.

    Args:
        target: a pinned target.
    """
    publisher = Publisher.of(snapshot.require(LEDGER), stream)
    known = _known(snapshot.store, publisher, target.target_id())
    standing = _compared(snapshot, target, publisher, known)
    # Somebody may have published between the two looks.
    return standing if standing.fault is None else _compared(snapshot, target.pinned(), publisher, known)


def _compared(snapshot: Snapshot, target: Target, publisher: Publisher, known: Known) -> Standing:
    store, stream = snapshot.store, publisher.stream
    fold, target_id = position_of(target, publisher), target.target_id()
    held, stranger, is_ours = _looked(snapshot, target, publisher, known)
    held = min(fold, held)
    where = store.path("").rstrip("/")
    command = f"`acker republish {called(store.topology)} {stream}`"
    again = f"publish what it lacks again with {command}, first with --dry-run."
    fault = None
    if known.fold and target_id is None:
        fault = (
            f"{target.uri} is gone, and {where} has published fold {known.fold} there. "
            f"Put it back, or {again}"
        )
    elif known.fold and not known.there:
        fault = (
            f"{target.uri} is not the one to which {where} has published fold {known.fold}: that was deleted "
            f"and made anew, or another is in its place. Put it back, or {again}"
        )
    elif held < known.fold:
        fault = (
            f"{target.uri} holds {stream} up to fold {held}, and {where} has published fold {known.fold} "
            f"there: {target.fallen(publisher)}. Put its newest version back, or {again}"
        )
    elif stranger is not None or not (
        known.is_met or fold or is_ours or has_met(store, target_id or "") or not target.has_rows()
    ):
        fault = _said_of(stranger, target, store, stream, publisher.store.former)
    return Standing(publisher, fold, target.position(publisher.app), held, target_id, known, stranger, fault)


def _known(store: Store, publisher: Publisher, target_id: str | None) -> Known:
    """A store's record of a publisher. A copied store uses its original's, as of when it was copied."""
    own = known_of(store, publisher.app, target_id or "")
    if own.is_met:
        return own
    formers = [(known_of(store, each.app, target_id or ""), fold) for each, fold in publisher.former]
    found = [Known(min(each.fold, fold), min(each.there, fold)) for each, fold in formers]
    return max(found, key=lambda each: each.fold, default=own)


def _looked(
    snapshot: Snapshot, target: Target, publisher: Publisher, known: Known
) -> tuple[int, Note | None, bool]:
    """The newest fold whose rows a target still holds, the newest note of a stranger, and a flag.

    The note is newer than the fold. The flag says whether the store has published there, from any stream.
    """
    ours, former = {*ids_of(snapshot.require(LEDGER))}, dict(publisher.store.former)
    own = target.position(publisher.app)
    is_first = not (known.fold or known.is_met or own)
    is_excused = known.is_shared or (
        own > 0 and not known.fold
    )  # by an older version, which took all as they were
    kept = former | dict.fromkeys(publisher.store.earlier, publisher.store.base)
    stranger: Note | None = None
    is_ours = False
    for note in target.notes(None if is_first else publisher.stream):
        store, _, stream = note.app.partition("/")
        is_ours = is_ours or store in ours
        if note.app == publisher.app or (stream == publisher.stream and note.fold <= kept.get(store, 0)):
            return note.fold, stranger, is_ours
        if not (stranger or is_excused or store in ours or (note.is_shared and not is_first)):
            stranger = note
    return position_of(target, publisher), stranger, is_ours


def _said_of(note: Note | None, target: Target, store: Store, stream: str, former: Mapping[str, int]) -> str:
    """The text of the error about a target in which another store has published.

    Args:
        note: the newest note of the other store; None where the target does not tell of it any more.
        former: ids of the stores of which this one is a copy -> the newest fold when it was copied.
    """
    where = store.path("").rstrip("/")
    if note is None:
        who, copied = "A store of which its history does not tell any more has published there", None
    else:
        id_, _, other = note.app.partition("/")
        copied = former.get(id_)
        if note.store == where and copied is None and store.open(LEDGER) is None:
            return (
                f"The store {where} is gone: it has published {other} to {target.uri} up to fold "
                f"{note.fold}, at {note.at:%Y-%m-%d %H:%M} UTC. Nothing is made anew in its place. Mount it, "
                "or put it back. If it is lost, restore a backup, or move its published tables away."
            )
        named = f"The store {note.store}" if note.store else f"The store with the id {id_}"
        who = f"A former store at {where}" if note.store == where else named
        who += f" has published {other} there up to fold {note.fold}, at {note.at:%Y-%m-%d %H:%M} UTC"
    here = "does not know of it" if copied is None else f"is a copy of it, made at fold {copied}"
    return (
        f"{target.uri} has rows of another store. {who}; {where} {here}, and would publish messages a second "
        "time. If the other is meant, set PIPELINE_STORE or PIPELINE_HOME to where it is; or publish to "
        f"another place. If both are to publish there, run `acker adopt {called(store.topology)} {stream}`."
    )

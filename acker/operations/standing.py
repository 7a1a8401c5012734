"""Remedies where a store and a target do not agree: an operator adopts the target, or publishes again."""

from dataclasses import dataclass

from acker.batches.run import Run
from acker.core.errors import StoreError
from acker.core.snapshot.journal import Journal
from acker.core.snapshot.publishers import Meeting, meet
from acker.core.snapshot.settled import acked_messages
from acker.core.snapshot.trims import newest_trim
from acker.core.store.identity import publish_again
from acker.core.store.schemas import LEDGER
from acker.core.store.store import Store
from acker.operations.evidence import evidence_of
from acker.operations.publish import publish_stream
from acker.targets.acked import Acked
from acker.targets.audit import tuples_due
from acker.targets.base import Note, Publisher, Target
from acker.targets.standing import Standing, check_new, judged
from acker.topology.topology import Publication, Topology


@dataclass(frozen=True)
class Again:
    """The effects of publishing a stream again.

    Args:
        after: the newest fold that stays as it is.
        messages: how many messages can be published again.
        gone: how many messages cannot be published again, since their tuples were trimmed.
        is_sent_twice: whether records that were sent before stay, as in a topic.
        why: the reason why folds have to be published again; None where none have to.
    """

    after: int
    messages: int
    gone: int
    is_sent_twice: bool
    why: str | None


def announce(topology: Topology, store: Store) -> str | None:
    """The sentence about a new store, to be told before the store is made; None where there is one already.

    Raises:
        StandingError: another store has published to a target of the topology.
    """
    if store.open(LEDGER) is not None:
        return None
    for name, publication in topology.publications.items():
        check_new(publication.target.pinned(), store, name)
    return f"A new store at {store.path('').rstrip('/')}: no message is known there."


def strangers(publication: Publication, store: Store) -> list[Note]:
    """The newest note of each other publisher in a target, newest first."""
    ledger = store.open(LEDGER)
    own = "" if ledger is None else Publisher.of(ledger, publication.stream).app
    newest: dict[str, Note] = {}
    for note in publication.target.pinned().notes():
        if note.app != own:
            newest.setdefault(note.app, note)
    return list(newest.values())


def adopt(run: Run, stream: str) -> None:
    """Let a store publish to a target beside other publishers there, from now on."""
    publication = run.topology.publication(stream)
    target, publisher = publication.target.pinned(), Publisher.of(run.store.require(LEDGER), stream)
    meeting = Meeting(stream, target.uri, target.target_id() or "", publisher.app, 0, "shared")
    meet(run.store, meeting, True, run.clock())


def look(topology: Topology, store: Store, stream: str, after: int | None = None) -> Again:
    """The effects that publishing a stream again would have; see `republish`."""
    return _looked(topology, Journal(store, topology.roles), stream, after)[0]


def republish(run: Run, stream: str, after: int | None = None) -> tuple[Again, int]:
    """Publish again the folds that a target lacks. Returns the effects, and the number of commits.

    The stream gets an id of its own, under which the target has no fold yet, in one commit of the ledger. So
    after an interruption any publish goes on with the rest.

    Args:
        after: the newest fold that the target still has, as an operator knows; None: the target tells which
            fold that is.

    Raises:
        StoreError: the target has rows of an unknown publisher or of another store, or the stream has never
            published the fold `after`.
    """
    publication, journal = run.topology.publication(stream), run.snapshot()
    again, standing = _looked(run.topology, journal, stream, after)
    if again.why is not None:
        target, upto = publication.target.pinned(), again.after
        evidence = (
            evidence_of(run.topology, journal, stream, target, upto) if target.only_adds and upto else None
        )
        sent = tuples_due(evidence, Acked.of(evidence, every_attempt=True)) if evidence else 0
        own = standing.publisher.store.again_after(upto, sent)
        app = Publisher(own, stream).app
        meeting = Meeting(stream, target.uri, standing.target_id or "", app, upto, "again")
        meet(run.store, meeting, standing.known.is_shared, run.clock())
        publish_again(run.store.require(LEDGER), stream, own)
    return again, publish_stream(run, publication)


def _looked(topology: Topology, journal: Journal, stream: str, after: int | None) -> tuple[Again, Standing]:
    target = topology.publication(stream).target.pinned()
    standing = judged(journal, target, stream)
    known, is_said = standing.known, after is not None
    if standing.fault and (standing.stranger or not known.fold):
        raise StoreError(standing.fault, component=stream, table=target.uri)
    if after is not None and after > known.fold:
        raise StoreError(f"{stream} has published no fold after {known.fold}.", component=stream)
    if after is None:
        after = min(standing.held, known.fold) if known.there else 0
        _check_empty(target, standing, after)
    why = standing.fault
    if why is None and is_said and target.only_adds and after == known.fold > 0:
        why = f"it is said that all is there up to fold {after}"  # which an audit leaves alone from now on
    gone = newest_trim(journal.store).is_gone()
    acked, lost = acked_messages(journal.require(LEDGER), after, known.fold, gone)
    messages, lacking = (acked - lost, lost) if why else (0, 0)
    return Again(after, messages, lacking, target.only_adds and known.there > 0, why), standing


def _check_empty(target: Target, standing: Standing, after: int) -> None:
    """Refuse to publish all folds to a target that still has published rows."""
    if standing.fault and not after and not standing.known.is_shared and target.has_rows():
        raise StoreError(
            f"{target.uri} has rows that were published, and its history does not tell which. Move it away, "
            "or drop it, and run the command again.",
            component=standing.publisher.stream,
            table=target.uri,
        )

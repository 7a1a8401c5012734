"""The identity of a store for its targets: an id, and of a copy also the ids of its originals.

A target keeps a publisher's position under the id. The id of a first store is the Delta id of its ledger. A
copy has the same Delta id, so it is given an id of its own. Folds that its original published count as
published by the copy, as far as the copy's ledger has them. A stream that is published again gets an id of
its own as well. Under the old id the target may still have the position of folds whose rows it has lost.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from uuid import uuid4

from deltalake import DeltaTable

from acker.core.store.tables import REFUSED, path_of, sentence_of, unwritten

_OWN = "acker.store"  # properties of the ledger
_FORMER = "acker.former_stores"
_AGAIN = "acker.published_again"  # stream -> the ids that it has instead of the store's


@dataclass(frozen=True)
class Identity:
    """The ids of a store, or of one of its streams that is published again.

    Args:
        own: the id under which the store publishes.
        former: ids of the stores of which this one is a copy -> the newest fold that each had when it was
            copied.
        earlier: ids under which the store itself published the stream before, and never will again.
        base: the newest fold that is not published again.
        tuples: number of tuples that were published up to that fold, where the target counts them.
    """

    own: str
    former: Mapping[str, int] = field(default_factory=dict)
    earlier: tuple[str, ...] = ()
    base: int = 0
    tuples: int = 0

    def copied_at(self, fold: int) -> "Identity":
        """The identity of a copy of this store, made at a newest fold."""
        return replace(self, own=str(uuid4()), former={**self.former, self.own: fold})

    def again_after(self, fold: int, tuples: int) -> "Identity":
        """The identity that publishes all folds after one again."""
        former = {store: min(newest, fold) for store, newest in self.former.items()}
        return Identity(str(uuid4()), former, (*self.earlier, self.own), fold, tuples)


def identity_of(ledger: DeltaTable, stream: str | None = None) -> Identity:
    """The ids of the store of a ledger, or those under which it publishes a stream."""
    metadata = ledger.metadata()
    again = _again(ledger)
    if stream in again:
        return again[stream]
    former = json.loads(metadata.configuration.get(_FORMER, "{}"))
    return Identity(metadata.configuration.get(_OWN, str(metadata.id)), former)


def ids_of(ledger: DeltaTable) -> Iterator[str]:
    """All ids under which the store of a ledger publishes, or has published itself."""
    for each in (identity_of(ledger), *_again(ledger).values()):
        yield from (each.own, *each.earlier)


def become_another(ledger: DeltaTable, copied: Identity, fold: int) -> None:
    """Give a copied store an id of its own, once. A store with other ids than `copied` stays as it is.

    Args:
        copied: the ids that the store was copied with.
        fold: the store's newest fold.

    Raises:
        StoreError: the ledger cannot be written.
    """
    if identity_of(ledger) != copied:
        return
    own = copied.copied_at(fold)
    again = {name: each.copied_at(fold) for name, each in _again(ledger).items()}
    _set(ledger, {_OWN: own.own, _FORMER: json.dumps(own.former), **_as_property(again)})


def publish_again(ledger: DeltaTable, stream: str, as_whom: Identity) -> None:
    """Let a stream be published under ids of its own from now on.

    Raises:
        StoreError: the ledger cannot be written.
    """
    _set(ledger, _as_property({**_again(ledger), stream: as_whom}))


def _again(ledger: DeltaTable) -> dict[str, Identity]:
    found = json.loads(ledger.metadata().configuration.get(_AGAIN, "{}"))
    return {name: Identity(**{**each, "earlier": tuple(each["earlier"])}) for name, each in found.items()}


def _as_property(again: Mapping[str, Identity]) -> dict[str, str]:
    return {_AGAIN: json.dumps({name: asdict(each) for name, each in again.items()})} if again else {}


def _set(ledger: DeltaTable, properties: dict[str, str]) -> None:
    try:
        ledger.alter.set_table_properties(properties, raise_if_not_exists=False)
    except REFUSED as error:
        path = path_of(ledger)
        otherwise = f"{path} got no id of its own: {sentence_of(error)} Run the command again."
        raise unwritten(path, error, otherwise) from error

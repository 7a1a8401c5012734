"""Who a store is to those that it publishes to: an id, and of a copy also who it was before.

A target keeps a publisher's position under the id. The Delta id of the ledger is that of the first store. A
copy has the same, so it is given an id of its own. What its original published counts as published by the
copy as far as the copy's ledger knows of it.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from uuid import uuid4

from deltalake import DeltaTable

from acker.core.delta import REFUSED, path_of, said, unwritten

_OWN = "acker.store"  # properties of the ledger
_FORMER = "acker.former_stores"


@dataclass(frozen=True)
class Identity:
    """The ids of a store.

    Args:
        own: under which it publishes.
        former: ids of the stores that it is a copy of -> the newest fold that each had when it was copied.
    """

    own: str
    former: Mapping[str, int] = field(default_factory=dict)


def identity_of(ledger: DeltaTable) -> Identity:
    """The ids of the store of a ledger."""
    metadata = ledger.metadata()
    former = json.loads(metadata.configuration.get(_FORMER, "{}"))
    return Identity(metadata.configuration.get(_OWN, str(metadata.id)), former)


def become_another(ledger: DeltaTable, copied: Identity, fold: int) -> None:
    """Give a copied store an id of its own. Once: of one that has another id than `copied` nothing changes.

    Args:
        copied: the ids that it was copied with.
        fold: its newest fold.

    Raises:
        StoreError: the ledger cannot be written.
    """
    if identity_of(ledger) != copied:
        return
    properties = {_OWN: str(uuid4()), _FORMER: json.dumps({**copied.former, copied.own: fold})}
    try:
        ledger.alter.set_table_properties(properties, raise_if_not_exists=False)
    except REFUSED as error:
        path = path_of(ledger)
        otherwise = f"{path} got no id of its own: {said(error)} Run the command again."
        raise unwritten(path, error, otherwise) from error

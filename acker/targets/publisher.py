"""Who publishes: the names that a component leaves on the commits of the table that it publishes to."""

import json

from acker.core.delta import WAY_OUT, Store, last_number, open_table
from acker.core.errors import StoreError
from acker.core.ledger import APP
from acker.core.schemas import LEDGER
from acker.topology.topology import Publication

COUNT = "_tuples"  # on a table of aggregates: how many tuples a row stands for


def app_id(store: Store, publication: Publication) -> str:
    """The transaction id under which a component publishes; a table may serve several stores.

    It holds the id of the ledger and not its path, so that a store that was moved, or is named by
    another URI, does not publish everything a second time.
    """
    return f"{store.require(LEDGER).metadata().id}/{publication.component}"


def position(store: Store, publication: Publication) -> int:
    """The newest fold that a component has published; 0 before the first.

    Raises:
        StoreError: the ledger has no such fold yet, and would give its number to another.
    """
    number = last_number(open_table(publication.to), app_id(store, publication))
    newest = last_number(store.open(LEDGER), APP)  # after it, since folds come before they are published
    if number > newest:
        raise StoreError(
            f"{publication.to} has fold {number} of {store.path(LEDGER)}, which ends with {newest}: that was "
            f"put back. Put back a newer version, or an older one of the published table. {WAY_OUT}"
        )
    return number


def commit_note(store: Store, publication: Publication, fold: int) -> str:
    """The user metadata of the commit that published a fold, by which `trace` finds its time."""
    return json.dumps({"published": app_id(store, publication), "fold": fold})

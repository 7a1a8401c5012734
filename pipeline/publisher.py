"""Who publishes: the names that a component leaves on the commits of the table that it publishes to."""

import json

from acker.schemas import LEDGER
from acker.tables import Store
from pipeline.topology import Publication

COUNT = "_tuples"  # on a table of aggregates: how many tuples a row stands for


def app_id(store: Store, publication: Publication) -> str:
    """The transaction id under which a component publishes; a table may serve several stores.

    It holds the id of the ledger and not its path, so that a store that was moved, or is named by
    another URI, does not publish everything a second time.
    """
    return f"{store.require(LEDGER).metadata().id}/{publication.component}"


def commit_note(store: Store, publication: Publication, fold: int) -> str:
    """The user metadata of the commit that published a fold, by which `trace` finds its time."""
    return json.dumps({"published": app_id(store, publication), "fold": fold})

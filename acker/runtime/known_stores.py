"""The places of the stores that this deployment last worked on, kept below `PIPELINE_HOME`.

A store that is gone cannot tell that it existed.
"""

from acker.core.store.store import Store
from acker.runtime.home import writing
from acker.runtime.settings import Settings


def remember(settings: Settings, store: Store) -> None:
    """Keep the place of a store that exists.

    Raises:
        ServerError: the home cannot be written.
    """
    where = place_of(store)
    if known_store(settings, store.topology) != where:
        file = settings.home / "stores" / store.topology
        with writing(file.parent):
            file.parent.mkdir(parents=True, exist_ok=True)
            draft = file.with_suffix(".new")
            draft.write_text(where)
            draft.replace(file)


def known_store(settings: Settings, topology: str) -> str | None:
    """The place of a topology's store; None where this deployment has never worked on one."""
    try:
        return (settings.home / "stores" / topology).read_text()
    except OSError:
        return None


def place_of(store: Store) -> str:
    """Path or URI of a topology's store."""
    return store.path("").rstrip("/")

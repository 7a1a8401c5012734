"""Connections by name: the address and the login of a cluster, which no topology and no table holds.

A connection is one of Airflow's, of type `kafka`. Its extra is librdkafka's configuration, as Airflow's own
provider for Kafka has it. Without Airflow the environment variable counts that Airflow reads as well.
"""

import json
import os
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from acker.core.errors import SourceError

Lookup = Callable[[str], Mapping[str, Any] | None]

_lookups: list[Lookup] = []


def look_up_with(lookup: Lookup) -> None:
    """Add a lookup, which is asked for connections that the environment does not name.

    Args:
        lookup: gives the extra of a connection by its name; None where it does not know the name.
    """
    if lookup not in _lookups:
        _lookups.append(lookup)


def connection(name: str, place: str = "bootstrap.servers") -> dict[str, str]:
    """The configuration of a connection, as librdkafka has it.

    Args:
        place: the setting that the connection must have, the address of the cluster or registry.

    Raises:
        SourceError: nobody knows the connection, its environment variable cannot be read, or the connection
            has no such address.
    """
    for lookup in (_from_environment, *_lookups):
        found = lookup(name)
        if found is not None:
            settings = {key: _text(value) for key, value in found.items()}
            if place not in settings:
                raise SourceError(f"The connection {name} has no {place} in its extra: add it.")
            return settings
    raise SourceError(
        f"There is no connection {name}. Add it in Airflow, or set {_variable(name)} to JSON: "
        f'{{"conn_type": "kafka", "extra": {{"{place}": …}}}}.'
    )


def _from_environment(name: str) -> Mapping[str, Any] | None:
    text = os.environ.get(_variable(name), "").strip()
    if not text:
        return None
    try:
        if text.startswith("{"):
            extra = json.loads(text).get("extra") or {}
        else:
            extra = dict(parse_qsl(urlsplit(text).query))
            extra = extra.get("__extra__", extra)
        return dict(json.loads(extra) if isinstance(extra, str) else extra)
    except (ValueError, AttributeError, TypeError):
        # What was read is not quoted: it may hold a password.
        raise SourceError(
            f'{_variable(name)} is neither JSON such as {{"conn_type": "kafka", "extra": {{…}}}} nor a URI.'
        ) from None


def _variable(name: str) -> str:
    return f"AIRFLOW_CONN_{name.upper()}"


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)

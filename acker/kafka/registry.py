"""A schema registry as Confluent's: which schema an id stands for."""

import base64
import json
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from acker.core.errors import SourceError
from acker.kafka.connections import connection

_ANSWER_SECONDS = 10.0
_URL = "url"


class NoSuchSchema(Exception):
    """No schema of Avro can be had for an id; the text says why."""


@dataclass(frozen=True)
class Registry:
    """A schema registry, by its address.

    Args:
        url: the address.
        settings: `basic.auth.user.info` ("name:password") and `ssl.ca.location`, where the registry wants
            these.
    """

    url: str
    settings: Mapping[str, str] = field(default_factory=dict, repr=False)

    @classmethod
    def named(cls, name: str) -> "Registry":
        """The registry of a connection, whose extra has its `url`.

        Raises:
            SourceError: nobody knows the connection, or it does not say where the registry is.
        """
        settings = connection(name, _URL)
        return cls(settings[_URL], settings)

    def schema(self, number: int) -> str:
        """The schema of an id, as JSON.

        Raises:
            NoSuchSchema: the registry does not know the id, or the schema is not one of Avro, or refers to
                other schemas.
            SourceError: the registry does not answer, or refuses.
        """
        request = Request(f"{self.url.rstrip('/')}/schemas/ids/{number}", headers=self._headers())
        trusted = ssl.create_default_context(cafile=self.settings.get("ssl.ca.location"))
        try:
            with urlopen(request, timeout=_ANSWER_SECONDS, context=trusted) as answer:
                told = json.load(answer)
        except HTTPError as error:
            if error.code == 404:
                raise NoSuchSchema(f"the registry knows no schema {number}") from error
            raise SourceError(f"The registry at {self.url}, asked for schema {number}: {error}.") from error
        except (OSError, ValueError) as error:
            raise SourceError(f"The registry at {self.url} does not answer: {error}.") from error
        if told.get("schemaType", "AVRO") != "AVRO" or told.get("references"):
            raise NoSuchSchema(f"schema {number} is not one of Avro, or refers to others")
        return str(told["schema"])

    def _headers(self) -> dict[str, str]:
        login = self.settings.get("basic.auth.user.info")
        if login is None:
            return {}
        return {"Authorization": f"Basic {base64.b64encode(login.encode()).decode()}"}

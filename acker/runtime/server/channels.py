"""The channels of clients to a Spark Connect server, which show a token on 127.0.0.1 or over TLS alone."""

from collections.abc import Iterable
from typing import Any
from urllib.parse import quote, urlsplit

from pyspark.sql.connect.client import DefaultChannelBuilder

from acker.runtime.settings import LOOPBACK

_DEFAULT_PORT = 15002  # Spark Connect's own

# A server that no longer answers, and whose connections stay open, is noticed in a call too. Spark's servers
# end connections on which they are asked for a sign of life more often than once in 5 minutes.
_ALIVE = [
    ("grpc.keepalive_time_ms", 330_000),
    ("grpc.keepalive_timeout_ms", 60_000),
    ("grpc.http2.max_pings_without_data", 0),  # for a call that waits brings no data
]


def address(url: str) -> tuple[str, int]:
    """Host and port of a URL `sc://…`. The host `localhost` becomes 127.0.0.1."""
    parts = urlsplit(url.partition(";")[0])
    host = parts.hostname or ""
    return LOOPBACK if host == "localhost" else host, parts.port or _DEFAULT_PORT


def channel(url: str, token: str | None) -> DefaultChannelBuilder:
    """The builder of a channel to a server.

    Args:
        url: `sc://host:port`, with parameters.
        token: the token to show where the URL has none; None: no token.
    """
    if address(url)[0] == LOOPBACK and not DefaultChannelBuilder(url).use_ssl:
        return LoopbackChannel(url, token)
    if token is not None and ";token=" not in url:
        url = f"{url if ';' in url else url.rstrip('/') + '/'};token={quote(token, safe='')}"
    return DefaultChannelBuilder(url, _ALIVE)  # which shows a token over TLS alone


class LoopbackChannel(DefaultChannelBuilder):
    """The builder of a channel to 127.0.0.1 and to nothing else, which shows its token there without TLS.

    Spark's own builder shows a token without TLS only for the name `localhost`. For that name gRPC tries
    `::1` first. The server does not listen there, so another process that does would be shown the token.

    Args:
        url: `sc://host:port`, with parameters. Its host is not looked up.
        token: the token to show where the URL has none; None: no token.
    """

    def __init__(self, url: str, token: str | None) -> None:
        # No proxy of the environment comes in between either.
        super().__init__(url, [("grpc.enable_http_proxy", 0), *_ALIVE])
        self._shown: str | None = self.getDefault(self.PARAM_TOKEN, token)

    @property
    def token(self) -> str | None:
        """The token that is shown. Its environment variable does not count; the settings have read it."""
        return self._shown

    def toChannel(self) -> Any:
        """The channel of gRPC, without TLS."""
        return self._insecure_channel(f"ipv4:{LOOPBACK}:{self._port}")

    def metadata(self) -> Iterable[tuple[str, str]]:
        """The metadata of every call, the token among them."""
        shown = [("authorization", f"Bearer {self._shown}")] if self._shown else []
        return [*super().metadata(), *shown]

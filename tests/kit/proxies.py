"""A proxy between clients and an S3 server, which counts what is asked for, and what a network can do.

A request is passed on as it comes: its `Host` and its body are signed. Clients keep their connections.
"""

import contextlib
import http.client
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BufferedIOBase
from typing import Any
from urllib.parse import urlsplit

from acker.runtime.ports import free_port
from acker.runtime.settings import LOOPBACK

Chosen = Callable[[str, str], bool]  # of a request, by its method and its path

_PIECE_BYTES = 1 << 16
_BETWEEN_TWO = {"connection", "keep-alive"}  # headers that each connection has of its own


class Proxy:
    """What lies between clients and a server.

    Attributes:
        port: at which it listens on this machine.
        counts: how many requests came, by method.
        delay_seconds: that each request waits before it is passed on.
        lost: method and path of the requests whose replies were lost.
    """

    def __init__(self, server: str) -> None:
        self.server = urlsplit(server)
        self.port = free_port()
        self.counts: Counter[str] = Counter()
        self.delay_seconds = 0.0
        self.lost: list[tuple[str, str]] = []
        self._losing: Chosen | None = None
        self._is_refusing = False
        self._lock = threading.Lock()
        self._listener: _Listener | None = None

    @property
    def address(self) -> str:
        """Its URL."""
        return f"http://{LOOPBACK}:{self.port}"

    @contextlib.contextmanager
    def gone(self) -> Iterator[None]:
        """Accept no connection and end those there are, as a server that is down."""
        self.stop()
        yield
        self.start()

    @contextlib.contextmanager
    def refusing(self) -> Iterator[None]:
        """Answer each request with 503, as S3 does that has too much to do."""
        self._is_refusing = True
        yield
        self._is_refusing = False

    def lose_reply(self, chosen: Chosen) -> None:
        """End the connection in place of the reply to the next request that is chosen, which is passed on."""
        self._losing = chosen

    def start(self) -> None:
        self._listener = _Listener(self)
        threading.Thread(target=self._listener.serve_forever, args=[0.01], daemon=True).start()

    def stop(self) -> None:
        if self._listener is not None:
            self._listener.end()
            self._listener = None

    def take(self, method: str) -> bool:
        """Count a request; whether it is passed on."""
        with self._lock:
            self.counts[method] += 1
        time.sleep(self.delay_seconds)
        return not self._is_refusing

    def loses(self, method: str, path: str) -> bool:
        """Whether the reply to a request is to be lost."""
        with self._lock:
            is_lost = self._losing is not None and self._losing(method, path)
            if is_lost:
                self._losing = None
                self.lost.append((method, path))
            return is_lost


@contextlib.contextmanager
def running_proxy(server: str) -> Iterator[Proxy]:
    """A proxy in front of the server at a URL, which runs until the block is left."""
    proxy = Proxy(server)
    proxy.start()
    try:
        yield proxy
    finally:
        proxy.stop()


class _Listener(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, proxy: Proxy) -> None:
        super().__init__((LOOPBACK, proxy.port), _Handler)
        self.proxy = proxy
        self.connections: set[socket.socket] = set()

    def process_request(self, request: Any, client_address: Any) -> None:
        self.connections.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self.connections.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A connection that a client has ended is none."""

    def end(self) -> None:
        """Listen no more, and end all connections."""
        self.shutdown()
        self.server_close()
        for connection in tuple(self.connections):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Listener

    def do_GET(self) -> None:
        proxy = self.server.proxy
        if not proxy.take(self.command):
            for _ in _body(self.headers, self.rfile):
                pass
            self._refuse()
            return
        upstream = http.client.HTTPConnection(proxy.server.hostname or LOOPBACK, proxy.server.port)
        try:
            reply = self._passed_on(upstream)
            if proxy.loses(self.command, self.path):
                reply.read()
                self.close_connection = True
                self.connection.shutdown(socket.SHUT_RDWR)
            else:
                self._hand_back(reply)
        finally:
            upstream.close()

    do_HEAD = do_PUT = do_POST = do_DELETE = do_GET

    def _passed_on(self, upstream: http.client.HTTPConnection) -> http.client.HTTPResponse:
        upstream.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
        for name, value in self.headers.items():
            if name.lower() not in _BETWEEN_TWO:
                upstream.putheader(name, value)
        upstream.endheaders()
        for piece in _body(self.headers, self.rfile):
            upstream.send(piece)
        return upstream.getresponse()

    def _hand_back(self, reply: http.client.HTTPResponse) -> None:
        self.send_response_only(reply.status, reply.reason)
        for name, value in reply.headers.items():
            if name.lower() not in _BETWEEN_TWO:
                self.send_header(name, value)
        self.end_headers()
        if self.command == "HEAD":
            return
        is_chunked = "chunked" in reply.headers.get("Transfer-Encoding", "")
        while piece := reply.read(_PIECE_BYTES):
            self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece) if is_chunked else piece)
        if is_chunked:
            self.wfile.write(b"0\r\n\r\n")

    def _refuse(self) -> None:
        self.send_response_only(503, "Slow Down")
        self.send_header("Content-Length", "0")
        self.end_headers()


def _body(headers: Message, source: BufferedIOBase) -> Iterator[bytes]:
    """What follows the headers of a request, as it comes."""
    if "chunked" not in headers.get("Transfer-Encoding", ""):
        left = int(headers.get("Content-Length", 0))
        while left and (piece := source.read(min(left, _PIECE_BYTES))):
            left -= len(piece)
            yield piece
        return
    size = 1
    while size:
        line = source.readline()
        size = int(line.partition(b";")[0], 16)
        yield line + source.read(size + len(b"\r\n"))

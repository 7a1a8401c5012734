"""A proxy between clients and an S3 server, which counts what is asked for, and what a network can do.

It is a process of its own, since `deltalake` may hold Python's lock while it waits for an answer. A request
is passed on as it comes: its `Host` and its body are signed. Clients keep their connections.
"""

import contextlib
import http.client
import multiprocessing
import re
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BufferedIOBase
from multiprocessing.managers import BaseManager
from typing import Any
from urllib.parse import urlsplit

from acker.runtime.server.ports import free_port
from acker.runtime.settings import LOOPBACK

COMMIT = r"/_delta_log/\d+\.json"  # in the path of what commits to a Delta table

_PIECE_BYTES = 1 << 16
_BETWEEN_TWO = {"connection", "keep-alive"}  # headers that each connection has of its own


class Proxy:
    """What lies between clients and a server.

    Args:
        traffic: what it does, in its own process.
    """

    def __init__(self, traffic: Any) -> None:
        self._traffic = traffic

    @property
    def address(self) -> str:
        """Its URL."""
        return str(self._traffic.address())

    def take_counts(self) -> Counter[str]:
        """How many requests came since this was last asked, by method."""
        found: Counter[str] = self._traffic.take_counts()
        return found

    def delay(self, seconds: float) -> None:
        """Let each request wait before it is passed on."""
        self._traffic.delay(seconds)

    @contextlib.contextmanager
    def gone(self) -> Iterator[None]:
        """Accept no connection and end those there are, as a server that is down."""
        self._traffic.stop()
        yield
        self._traffic.start()

    @contextlib.contextmanager
    def refusing(self) -> Iterator[None]:
        """Answer each request with 503, as S3 does that has too much to do."""
        self._traffic.refuse(True)
        yield
        self._traffic.refuse(False)

    def lose_reply(self, method: str, path: str) -> None:
        """End the connection in place of the reply to the next request of a kind, which is passed on.

        Args:
            path: a pattern that is found in it.
        """
        self._traffic.lose_reply(method, path)

    def take_lost(self) -> list[str]:
        """Paths of the requests whose replies were lost since this was last asked."""
        return list(self._traffic.take_lost())


@contextlib.contextmanager
def running_proxy(server: str) -> Iterator[Proxy]:
    """A proxy in front of the server at a URL, which runs until the block is left."""
    with _Manager(ctx=multiprocessing.get_context("spawn")) as manager:
        traffic = manager.traffic(server)  # type: ignore[attr-defined]
        traffic.start()
        yield Proxy(traffic)


class Traffic:
    """What a proxy does; see there."""

    def __init__(self, server: str) -> None:
        self.server = urlsplit(server)
        self._port = free_port()
        self._counts: Counter[str] = Counter()
        self._delay_seconds = 0.0
        self._losing: tuple[str, str] | None = None
        self._lost: list[str] = []
        self._is_refusing = False
        self._lock = threading.Lock()
        self._listener: _Listener | None = None

    def address(self) -> str:
        return f"http://{LOOPBACK}:{self._port}"

    def take_counts(self) -> Counter[str]:
        with self._lock:
            found, self._counts = self._counts, Counter()
        return found

    def delay(self, seconds: float) -> None:
        self._delay_seconds = seconds

    def refuse(self, is_refusing: bool) -> None:
        self._is_refusing = is_refusing

    def lose_reply(self, method: str, path: str) -> None:
        self._losing = (method, path)

    def take_lost(self) -> list[str]:
        found, self._lost = self._lost, []
        return found

    def start(self) -> None:
        self._listener = _Listener((LOOPBACK, self._port), _Handler)
        self._listener.traffic = self
        threading.Thread(target=self._listener.serve_forever, args=[0.01], daemon=True).start()

    def stop(self) -> None:
        if self._listener is not None:
            self._listener.end()
            self._listener = None

    def takes(self, method: str) -> bool:
        """Count a request and wait; whether it is passed on."""
        with self._lock:
            self._counts[method] += 1
        time.sleep(self._delay_seconds)
        return not self._is_refusing

    def loses(self, method: str, path: str) -> bool:
        """Whether the reply to a request is to be lost."""
        with self._lock:
            if self._losing is None or method != self._losing[0] or not re.search(self._losing[1], path):
                return False
            self._losing = None
            self._lost.append(path)
            return True


class _Manager(BaseManager):
    pass


_Manager.register("traffic", Traffic)


class _Listener(ThreadingHTTPServer):
    daemon_threads = True
    traffic: Traffic

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
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
        traffic = self.server.traffic
        if not traffic.takes(self.command):
            for _ in _body(self.headers, self.rfile):
                pass
            self._refuse()
            return
        upstream = http.client.HTTPConnection(traffic.server.hostname or LOOPBACK, traffic.server.port)
        try:
            reply = self._passed_on(upstream)
            if traffic.loses(self.command, self.path):
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

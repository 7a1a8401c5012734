"""An S3 server as a process of its own: moto's, which keeps all in its memory.

It looks and writes in two steps where a write is conditional, so it is no judge of races.
"""

import contextlib
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from acker.runtime import process_guard as guard
from acker.runtime.ports import free_port, is_listening
from acker.runtime.settings import LOOPBACK
from tests.kit.waiting import wait_for

BUCKET = "lake"


@contextlib.contextmanager
def running_object_store(folder: Path) -> Iterator[dict[str, str]]:
    """A server with a bucket, and the variables by which its clients find it and may use it."""
    port = free_port()
    command = [sys.executable, "-m", "moto.server", "-H", LOOPBACK, "-p", str(port)]
    folder.mkdir(parents=True, exist_ok=True)
    process = guard.start(command, folder / "s3.log")
    try:
        wait_for(lambda: is_listening(LOOPBACK, port), every_seconds=0.1)
        endpoint = f"http://{LOOPBACK}:{port}"
        urllib.request.urlopen(urllib.request.Request(f"{endpoint}/{BUCKET}", method="PUT")).close()
        yield {
            "AWS_ENDPOINT_URL": endpoint,
            "AWS_ALLOW_HTTP": "true",
            "AWS_ACCESS_KEY_ID": "testing",
            "AWS_SECRET_ACCESS_KEY": "testing",
            "AWS_REGION": "us-east-1",
        }
    finally:
        guard.stop([process])

"""S3 servers, as processes of their own that listen on this machine alone.

moto's is quickly there and keeps all in its memory. It looks and writes in two steps where a write is
conditional, so it is no judge of races. Versity's gateway does both in one. It is built with Go, once for
each virtual environment, and whoever asks for it where there is no Go is skipped.
"""

import contextlib
import os
import shutil
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyarrow.fs import S3FileSystem

from acker.runtime.server.jars import locked
from acker.runtime.server.ports import free_port
from acker.runtime.settings import LOOPBACK
from embedded import process_guard as guard
from tests.kit.waiting import wait_for

BUCKET = "lake"
KEY = "testing"  # and its secret
REGION = "us-east-1"
_GATEWAY = "github.com/versity/versitygw/cmd/versitygw"
_VERSION = "1.8.0"


@contextlib.contextmanager
def running_object_store(folder: Path, is_atomic: bool = False) -> Iterator[dict[str, str]]:
    """A server with a bucket, and the variables by which its clients find it and may use it.

    Args:
        folder: of its log, and of what it keeps on the disk.
        is_atomic: whether of conditional writes of one object that come at once just one goes in.
    """
    port, objects = free_port(), folder / "objects"
    objects.mkdir(parents=True)
    command = [sys.executable, "-m", "moto.server", "-H", LOOPBACK, "-p", str(port)]
    if is_atomic:
        where = ["--port", f"{LOOPBACK}:{port}", "--region", REGION, "--keep-alive", "--quiet"]
        command = [str(gateway()), *where, "posix", str(objects)]
    environ = os.environ | {"ROOT_ACCESS_KEY": KEY, "ROOT_SECRET_KEY": KEY}
    process = guard.start(command, folder / "s3.log", environ)
    try:
        wait_for(lambda: _answers(port) or process.poll() is not None, every_seconds=0.1)
        address = f"{LOOPBACK}:{port}"
        system = S3FileSystem(
            access_key=KEY,
            secret_key=KEY,
            region=REGION,
            scheme="http",
            endpoint_override=address,
            allow_bucket_creation=True,
        )
        system.create_dir(BUCKET)
        yield {
            "AWS_ENDPOINT_URL": f"http://{address}",
            "AWS_ALLOW_HTTP": "true",
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": KEY,
            "AWS_REGION": REGION,
        }
    finally:
        guard.stop([process])


def gateway() -> Path:
    """The program of Versity's gateway, built where it is not there yet."""
    folder = Path(sys.prefix) / "share" / "acker" / f"versitygw-{_VERSION}"
    program = folder / "versitygw"
    if program.exists():
        return program
    if shutil.which("go") is None:
        pytest.skip("there is no Go, with which the S3 server that judges races is built")
    draft, lock = (folder.with_name(f"{folder.name}.{end}") for end in ("new", "lock"))
    with locked(lock, ""):
        if not program.exists():  # else another process has built it meanwhile
            flags = f"{os.environ.get('GOFLAGS', '')} -modcacherw"  # the cache can be deleted like any folder
            environ = os.environ | {"GOBIN": str(draft), "GOFLAGS": flags.strip()}
            subprocess.run(["go", "install", f"{_GATEWAY}@v{_VERSION}"], env=environ, check=True)
            draft.rename(folder)
    return program


def _answers(port: int) -> bool:
    try:
        urllib.request.urlopen(f"http://{LOOPBACK}:{port}").close()
    except urllib.error.HTTPError:  # that it wants a signature
        return True
    except OSError:
        return False
    return True

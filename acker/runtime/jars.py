"""Delta's jars, which the Spark server loads: fetched once into the environment that `acker` is installed in.

The Ivy that ships inside PySpark fetches the fixed list of `ivy.xml`, through whatever repositories it is
configured for. A deployment without a network sets `PIPELINE_JARS` to a folder that holds them.
"""

import contextlib
import fcntl
import hashlib
import importlib.util
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from acker.core.errors import ServerError
from acker.runtime.java import check_java, java_command

_IVY = Path(__file__).with_name("ivy.xml")


def spark_home() -> Path:
    """The folder of the installed PySpark.

    Raises:
        ServerError: PySpark is not installed.
    """
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise ServerError("The package pyspark is missing: install acker again, with its dependencies.")
    return Path(spec.origin).parent


def default_folder() -> Path:
    """Where this release's jars are kept, in the Python environment; another list has another folder."""
    release = hashlib.sha256(_IVY.read_bytes()).hexdigest()[:12]
    return Path(sys.prefix) / "share" / "acker" / f"jars-{release}"


def jars(folder: Path | None) -> list[Path]:
    """The jars for the Spark server.

    Args:
        folder: the folder that holds them; None: the environment's own, which is filled where it is missing.

    Raises:
        ServerError: the folder lacks Delta's jars, or they could not be fetched.
    """
    if folder is None:
        folder = default_folder()
        _fill(folder)
    found = sorted(folder.glob("*.jar"))
    if not any("delta-spark" in jar.name for jar in found):
        raise ServerError(
            f"Delta's jars are not in {folder}. Unset PIPELINE_JARS to have them fetched, or set it to a "
            "folder that holds them."
        )
    return found


def _fill(folder: Path) -> None:
    """Fetch the jars, where not all of them are there."""
    expected = _IVY.read_text().count("<dependency ")
    if len(list(folder.glob("*.jar"))) == expected:
        return
    check_java()
    with _locked(folder.with_suffix(".lock")):
        if len(list(folder.glob("*.jar"))) == expected:
            return  # another process has fetched them meanwhile
        draft = folder.with_suffix(".new")
        shutil.rmtree(draft, ignore_errors=True)
        shutil.rmtree(folder, ignore_errors=True)
        draft.mkdir()
        print("Fetching Delta's jars …", file=sys.stderr)
        (ivy,) = (spark_home() / "jars").glob("ivy-*.jar")
        pattern = f"{draft}/[artifact]-[revision].[ext]"
        command = [java_command(), "-jar", str(ivy), "-warn", "-ivy", str(_IVY), "-retrieve", pattern]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0 or len(list(draft.glob("*.jar"))) != expected:
            said = (done.stdout + done.stderr).strip().splitlines()
            raise ServerError(
                f"Delta's jars could not be fetched: {' '.join(said[-5:])} Mend that and try again, or set "
                "PIPELINE_JARS to a folder that holds them."
            )
        draft.rename(folder)


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = path.open("w")
    except OSError as error:
        raise ServerError(
            f"Delta's jars cannot be kept in {path.parent} ({error.strerror}). Set PIPELINE_JARS to a folder "
            "that holds them."
        ) from error
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield

"""The jars that the Spark server loads, of Delta, Kafka and S3: fetched once, into `acker`'s own environment.

The Ivy that ships inside PySpark fetches fixed lists, `ivy.xml` and for S3 `s3.xml`, through its configured
repositories. Beside each list lies the SHA-256 of each of its jars, as `sha256sum` writes it. Jars are
compared with these sums when they are fetched, and each time that a server is started with them. A deployment
without a network sets `PIPELINE_JARS` to a folder that holds the jars. These are taken as they are.
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
from acker.runtime.server.java import check_java, java_command

_IVY = Path(__file__).with_name("ivy.xml")
_S3 = Path(__file__).with_name("s3.xml")
_INSTEAD = ", or set PIPELINE_JARS to a folder that holds them"


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
    """The folder of this release's jars."""
    return kept_in("jars", _IVY)


def sums_file(listed: Path) -> Path:
    """The file with the SHA-256 of each jar of a list."""
    return listed.with_suffix(".sha256")


def kept_in(name: str, listed: Path) -> Path:
    """The folder for the jars of a list, in the Python environment. Other jars have another folder."""
    release = hashlib.sha256(listed.read_bytes() + sums_file(listed).read_bytes()).hexdigest()[:12]
    return Path(sys.prefix) / "share" / "acker" / f"{name}-{release}"


def jars(folder: Path | None, with_s3: bool = False) -> list[Path]:
    """The jars for the Spark server.

    Args:
        folder: the folder that holds them; None: the environment's own, which is filled where it is missing.
        with_s3: whether the jars that Spark needs for S3 are among them.

    Raises:
        ServerError: the folder lacks Delta's jars, or they could not be fetched.
    """
    if folder is None:
        of_s3 = fetched(_S3, kept_in("s3", _S3), _INSTEAD) if with_s3 else []
        return fetched(_IVY, default_folder(), _INSTEAD) + of_s3
    found = sorted(folder.glob("*.jar"))
    if not any("delta-spark" in jar.name for jar in found):
        raise ServerError(
            f"Delta's jars are not in {folder}. Unset PIPELINE_JARS to have them fetched, or set it to a "
            "folder that holds them."
        )
    return found


def fetched(listed: Path, folder: Path, instead: str = "") -> list[Path]:
    """The jars of a list, compared with their sums, and fetched into a folder where not all are there.

    Args:
        listed: a file of Ivy's, which names all jars. Their sums lie beside it.
        folder: where the jars are kept.
        instead: further advice, at the end of an error's message.

    Raises:
        ServerError: the jars could not be fetched or kept, or a jar does not fit its sum.
    """
    expected = listed.read_text().count("<dependency ")
    if len(list(folder.glob("*.jar"))) != expected:
        check_java()
        with locked(folder.with_suffix(".lock"), instead):
            if len(list(folder.glob("*.jar"))) != expected:  # else another process has fetched them meanwhile
                _fetch(listed, folder, expected, instead)
    _check(  # which takes less than 0.1 s
        folder,
        sums_file(listed),
        f"It was changed since it was fetched. Delete {folder} and run `acker setup`, or build the image "
        "anew.",
    )
    return sorted(folder.glob("*.jar"))


def _fetch(listed: Path, folder: Path, expected: int, instead: str) -> None:
    draft = folder.with_suffix(".new")
    shutil.rmtree(draft, ignore_errors=True)
    shutil.rmtree(folder, ignore_errors=True)
    print(f"Fetching {expected} jars …", file=sys.stderr)
    retrieve(listed, draft, instead)
    _check(
        draft,
        sums_file(listed),
        "Nothing was installed. Find out where Ivy had the jar from, delete it in Ivy's cache "
        f"(~/.ivy2/cache) and try again{instead}.",
    )
    draft.rename(folder)


def retrieve(listed: Path, folder: Path, instead: str = "") -> list[Path]:
    """The jars of a list, as Ivy brings them into a new folder. They are not compared with their sums.

    Args:
        listed: a file of Ivy's, which names all jars.
        folder: the new folder, which is made.
        instead: further advice, at the end of an error's message.

    Raises:
        ServerError: the jars could not be fetched.
    """
    folder.mkdir()
    (ivy,) = (spark_home() / "jars").glob("ivy-*.jar")
    pattern = f"{folder}/[artifact]-[revision].[ext]"
    command = [java_command(), "-jar", str(ivy), "-warn", "-ivy", str(listed), "-retrieve", pattern]
    done = subprocess.run(command, capture_output=True, text=True)
    found = sorted(folder.glob("*.jar"))
    if done.returncode != 0 or len(found) != listed.read_text().count("<dependency "):
        said = (done.stdout + done.stderr).strip().splitlines()
        raise ServerError(
            f"The jars could not be fetched: {' '.join(said[-5:])} Mend that and try again{instead}."
        )
    return found


def sums(folder: Path) -> dict[str, str]:
    """The SHA-256 of each jar in a folder, by the file's name."""
    return {jar.name: hashlib.sha256(jar.read_bytes()).hexdigest() for jar in sorted(folder.glob("*.jar"))}


def listed_sums(file: Path) -> dict[str, str]:
    """The SHA-256 of each file that a file of `sha256sum` lists, by the listed file's name."""
    return {name: digest for digest, name in (line.split() for line in file.read_text().splitlines())}


def _check(folder: Path, file: Path, remedy: str) -> None:
    found, expected = sums(folder), listed_sums(file)
    for name in sorted(found.keys() | expected.keys()):
        if name not in expected or name not in found:
            which = "there and has no line" if name in found else "not there and has a line"
            raise ServerError(
                f"The jar {name} is {which} in {file}. Delete {folder} and install acker again."
            )
        if found[name] != expected[name]:
            raise ServerError(
                f"The jar {name} is not the one that acker was tested with: its SHA-256 is {found[name]}, "
                f"and {file} has {expected[name]}. {remedy}"
            )


@contextlib.contextmanager
def locked(path: Path, instead: str) -> Iterator[None]:
    """Hold a lock file, whose folder is made where it is missing.

    Args:
        instead: further advice, at the end of an error's message.

    Raises:
        ServerError: the folder cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = path.open("w")
    except OSError as error:
        raise ServerError(
            f"Nothing can be kept in {path.parent} ({error.strerror}). Make it writable{instead}."
        ) from error
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield

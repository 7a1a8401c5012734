"""Python packages for the executors of a cluster, sent in archives that Spark unpacks for them.

A cluster has its own Spark and its own Python, of the same version as the client's. All other modules that a
task imports come from the archives, so no folder need be shared.
"""

import hashlib
import importlib.util
import re
import sys
import tarfile
from collections.abc import Iterable, Iterator, Sequence
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from acker.core.errors import ServerError
from acker.runtime.project import project_dependencies
from acker.runtime.server.jars import locked

PACKAGES, PROJECT = "packages", "project"  # the folders into which Spark unpacks the archives

_NAME = re.compile(r"[A-Za-z0-9][\w.-]*")
_THEIRS = ("pyspark", "py4j")  # which come with Spark
_OURS = "acker"


def packages() -> Path:
    """The archive of the packages that `acker` and the project need, made where it is missing.

    Raises:
        ServerError: the archive could not be kept.
    """
    found = _needed([_OURS, *project_dependencies()])
    listed = "\n".join(sorted(f"{name}=={each.version}" for name, each in found.items()))
    digest = hashlib.sha256(f"{sys.version_info[:2]}\n{listed}".encode()).hexdigest()[:12]
    archive = Path(sys.prefix) / "share" / "acker" / f"packages-{digest}.tar"
    if not archive.exists():
        with locked(archive.with_suffix(".lock"), instead=""):
            if not archive.exists():  # else another process has made it meanwhile
                print("Packing Python packages for Spark's executors …", file=sys.stderr)
                _write(archive, (pair for each in found.values() for pair in _files(each)))
    return archive


def project(topologies: Sequence[str], folder: Path) -> Path:
    """The archive of `acker` itself and of the packages of topologies, which is made anew each time.

    Args:
        topologies: import strings `package.module:attribute`.
        folder: where to keep the archive.

    Raises:
        ServerError: the archive could not be kept.
    """
    names = {_OURS, *(name.partition(":")[0].partition(".")[0] for name in topologies)}
    archive = folder / "project.tar"
    _write(archive, (pair for name in sorted(names) for pair in _modules(name)))
    return archive


def _needed(requirements: Iterable[str]) -> dict[str, Distribution]:
    """The installed distributions that requirements need, by name, without those that come with Spark."""
    found: dict[str, Distribution] = {}
    left = list(requirements)
    while left:
        match = _NAME.match(requirement := left.pop())
        name = re.sub(r"[-_.]+", "-", match[0]).lower() if match else ""
        if name in found or name in ("", *_THEIRS) or "extra ==" in requirement:
            continue
        try:
            found[name] = distribution(name)
        except PackageNotFoundError:
            continue  # it is for another system
        left += found[name].requires or ()
    found.pop(_OURS, None)
    return found


def _files(package: Distribution) -> Iterator[tuple[Path, str]]:
    for file in package.files or ():
        path = Path(str(package.locate_file(file)))
        if ".." not in file.parts and "__pycache__" not in file.parts and path.is_file():
            yield path, str(file)


def _modules(name: str) -> Iterator[tuple[Path, str]]:
    spec = importlib.util.find_spec(name)
    if spec is None:
        return
    if not spec.submodule_search_locations:
        yield Path(spec.origin or ""), f"{name}.py"
        return
    for folder in map(Path, spec.submodule_search_locations):
        for path in sorted(folder.rglob("*")):
            below = path.relative_to(folder)
            if path.is_file() and "__pycache__" not in below.parts:
                yield path, f"{name}/{below}"


def _write(archive: Path, files: Iterable[tuple[Path, str]]) -> None:
    draft = archive.with_suffix(".new")
    try:
        archive.parent.mkdir(parents=True, exist_ok=True)
        with tarfile.open(draft, "w") as tar:
            for path, name in files:
                tar.add(path, name, recursive=False)
        draft.replace(archive)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise ServerError(
            f"The Python packages for Spark's executors cannot be kept in {archive.parent} "
            f"({error.strerror}). Make room there and make it writable, or call `acker setup` where it is."
        ) from error

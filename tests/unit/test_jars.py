"""Fetched jars are those that the committed sums name; Java and Ivy are played by a script."""

import hashlib
import re
from pathlib import Path

import pytest

from acker.core.errors import ServerError
from acker.runtime.server.jars import fetched, listed_sums, sums_file
from tests.kit import ROOT

LISTS = [
    *sorted((ROOT / "acker" / "runtime" / "server").glob("*.xml")),
    ROOT / "embedded" / "broker.xml",
    ROOT / "bench" / "storm" / "ivy.xml",
]

# Its last argument is where Ivy puts the jars.
JAVA = """#!/bin/sh
[ "$1" = -version ] && { echo 'openjdk version "17.0.1"' >&2; exit; }
for last in "$@"; do :; done
cp REPOSITORY/*.jar "$(dirname "$last")"
"""


@pytest.fixture
def listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A list of one jar with its sum, and a Java that fetches it from the folder `repository`."""
    (tmp_path / "repository").mkdir()
    (tmp_path / "repository" / "a-1.jar").write_bytes(b"jar")
    (tmp_path / "bin").mkdir()
    java = tmp_path / "bin" / "java"
    java.write_text(JAVA.replace("REPOSITORY", f"'{tmp_path}/repository'"))
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    listed = tmp_path / "list.xml"
    listed.write_text('<dependency org="org.a" name="a" rev="1"/>')
    sums_file(listed).write_text(f"{hashlib.sha256(b'jar').hexdigest()}  a-1.jar\n")
    return listed


def test_jars_that_are_what_their_sums_say_are_kept(listed: Path, tmp_path: Path) -> None:
    assert fetched(listed, tmp_path / "jars") == [tmp_path / "jars" / "a-1.jar"]


def test_a_jar_of_other_content_is_refused_each_time(listed: Path, tmp_path: Path) -> None:
    (tmp_path / "repository" / "a-1.jar").write_bytes(b"jaR")
    other, right = (hashlib.sha256(content).hexdigest() for content in (b"jaR", b"jar"))
    for _ in range(2):
        with pytest.raises(ServerError) as refused:
            fetched(listed, tmp_path / "jars", ", or set PIPELINE_JARS")
        assert str(refused.value) == (
            f"The jar a-1.jar is not the one that acker was tested with: its SHA-256 is {other}, "
            f"and {tmp_path}/list.sha256 has {right}. Nothing was installed. Find out where Ivy had the "
            "jar from, delete it in Ivy's cache (~/.ivy2/cache) and try again, or set PIPELINE_JARS."
        )
        assert not (tmp_path / "jars").exists()


def test_a_jar_without_a_sum_is_refused(listed: Path, tmp_path: Path) -> None:
    sums_file(listed).write_text("")
    with pytest.raises(ServerError, match=r"^The jar a-1\.jar is there and has no line in .*list\.sha256"):
        fetched(listed, tmp_path / "jars")


def test_a_jar_that_was_changed_since_it_was_fetched_is_refused_at_each_start(
    listed: Path, tmp_path: Path
) -> None:
    (jar,) = fetched(listed, tmp_path / "jars")
    jar.write_bytes(b"jaR")
    for _ in range(2):
        with pytest.raises(ServerError, match=r"a-1\.jar is not the one .* It was changed .* anew"):
            fetched(listed, tmp_path / "jars")


@pytest.mark.parametrize("path", LISTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_jar_of_a_list_has_a_sum(path: Path) -> None:
    jars = re.findall(r'<dependency org="[^"]+" name="([^"]+)" rev="([^"]+)"', path.read_text())
    assert set(listed_sums(sums_file(path))) == {f"{name}-{revision}.jar" for name, revision in jars}

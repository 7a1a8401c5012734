"""`acker init`, without a run of what it makes; `tests/acceptance/test_init.py` has that."""

import json
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from acker.cli.commands import main
from acker.cli.init import requirement
from tests.kit import ROOT

FILES = [
    ".gitignore",
    "README.md",
    "dags/acker_dags.py",
    "docker-compose.yml",
    "pipeline/__init__.py",
    "pipeline/bakery.py",
    "pipeline/input/monday.json",
    "pyproject.toml",
    "requirements-production.txt",
    "requirements.txt",
    "tests/test_bakery.py",
]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, which is empty."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def init(name: str) -> Result:
    return CliRunner().invoke(main, ["init", name])


def found_in(folder: Path) -> dict[str, str]:
    return {str(file.relative_to(folder)): file.read_text() for file in folder.rglob("*") if file.is_file()}


def test_a_new_project_has_its_name_wherever_the_template_has_its_own(folder):
    assert init("bakery").exit_code == 0
    files = found_in(folder / "bakery")
    assert sorted(files) == FILES
    assert [name for name, text in files.items() if "shop" in text] == []
    assert files["pyproject.toml"].startswith('[tool.acker]\ntopologies = ["pipeline.bakery:topology"]\n')
    assert [each.name for each in folder.iterdir()] == ["bakery"]


def test_the_next_steps_are_told(folder):
    told = [line.partition("#")[0].strip() for line in init("bakery").output.splitlines()]
    assert told[2:] == ["cd bakery", "pytest", "acker run bakery", "acker audit bakery", "acker server stop"]


def test_a_folder_that_is_empty_is_filled(folder):
    (folder / "bakery").mkdir()
    assert init("bakery").exit_code == 0
    assert sorted(found_in(folder / "bakery")) == FILES


@pytest.mark.parametrize("name", ["Bakery", "1st", "my-bakery", "of/bread", "..", "class", "bäckerei", "a\n"])
def test_a_name_that_can_name_no_project_is_refused(folder, name):
    result = init(name)
    assert (result.exit_code, list(folder.iterdir())) == (2, [])
    assert result.output.startswith("Error: ")
    assert "cannot name a project, whose pipeline is a Python module. Write lower case" in result.output


def test_what_is_there_already_stays_as_it_is(folder):
    (folder / "bakery").mkdir()
    (folder / "bakery" / "bread.txt").write_text("rye")
    (folder / "cafe").write_text("a file")
    for name in ("bakery", "cafe"):
        result = init(name)
        sentence = f"Error: {name} is there already. Choose another name, or move it away.\n"
        assert (result.exit_code, result.output) == (2, sentence)
    assert found_in(folder) == {"bakery/bread.txt": "rye", "cafe": "a file"}


def test_a_folder_that_cannot_be_made_leaves_nothing(folder):
    name = "a" * 255  # with more, no file could have a name of its own beside it
    result = init(name)
    sentence = (
        f"Error: {name} cannot be made here: File name too long. Call the command in a folder of yours.\n"
    )
    assert (result.exit_code, result.output) == (2, sentence)
    assert list(folder.iterdir()) == []


FROM_GIT = {"url": "https://host/acker.git", "vcs_info": {"vcs": "git", "commit_id": "1f"}}


@pytest.mark.parametrize(
    ("direct_url", "line"),
    [
        (None, "acker[airflow]==0.1.0"),
        (json.dumps({"url": "file:///src/acker"}), "acker[airflow] @ file:///src/acker"),
        (json.dumps(FROM_GIT), "acker[airflow] @ git+https://host/acker.git@1f"),
    ],
)
def test_a_project_requires_the_library_from_where_it_came(direct_url, line):
    assert requirement("0.1.0", direct_url) == line


def test_a_project_is_deployed_as_this_repository_is(folder):
    init("bakery")
    theirs = yaml.safe_load((folder / "bakery" / "docker-compose.yml").read_text())
    ours = yaml.safe_load((ROOT / "docker-compose.yml").read_text().replace("/opt/acker", "/opt/bakery"))
    for service in ours["services"].values():
        service.get("environment", {}).pop("PIPELINE_TOPOLOGIES", None)  # of pyproject.toml there
    for both in (theirs, ours):
        for name in [name for name in both if name.startswith("x-")]:
            del both[name]
        for service in both["services"].values():
            if "build" in service:
                for own in ("build", "image", "volumes", "working_dir"):
                    service.pop(own, None)
    assert theirs == ours

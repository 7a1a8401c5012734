"""An author's own tests in a folder of their own: their pytest starts a Spark server, which ends with it."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from acker.runtime.server import process as server
from tests.kit import ROOT

pytestmark = (
    pytest.mark.extended
)  # each starts a server; tests/pipeline has an author's tests on the shared one

BLOCKS = re.compile(r"^`(\w+\.py)`[^\n]*\n\n```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
BLOCKED = """
import time
from acker.testing import run_bolt
from shop import items

def test_that_does_not_end():
    run_bolt(items, [{"id": 1, "items": "tea"}])
    print("up", flush=True)
    while True:
        time.sleep(0.1)
"""


class Project:
    """The example of the page on tests, as files in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.temporary = folder / "tmp"
        self.temporary.mkdir()
        for name, code in BLOCKS.findall((ROOT / "docs" / "how-to" / "test-your-bolts.md").read_text()):
            (folder / name).write_text(code)

    def pytest(self, *arguments: str) -> "subprocess.Popen[str]":
        environ = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
        environ |= {
            "TMPDIR": str(self.temporary),
            "PIPELINE_TEST_REMOTE": "",
            "SPARK_REMOTE": "sc://nowhere:1",
        }
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
        return subprocess.Popen(command, cwd=self.folder, env=environ, stdout=subprocess.PIPE, text=True)

    def server(self) -> dict[str, Any]:
        """What the server of the tests says of itself."""
        (found,) = self.temporary.glob("acker-testing-*/home/server/server.json")
        return json.loads(found.read_text())


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def test_the_example_of_the_page_passes_and_leaves_nothing_behind(project):
    process = project.pytest()
    told, _ = process.communicate()
    assert (process.returncode, told.splitlines()[-1].partition(" in ")[0]) == (0, "4 passed")
    assert list(project.temporary.iterdir()) == []


@pytest.mark.thorough
def test_ctrl_c_ends_the_server_as_well(project):
    (project.folder / "test_blocked.py").write_text(BLOCKED)
    process = project.pytest("-s", "test_blocked.py")
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    pid = project.server()["pid"]
    process.send_signal(signal.SIGINT)
    process.communicate()
    assert process.returncode == pytest.ExitCode.INTERRUPTED
    assert server._start_time(pid) is None
    assert list(project.temporary.iterdir()) == []

"""Makes one deliberate bug at a time in a copy of the tree, and sees whether its tests catch it.

The tests must pass as long as the copy is sound. All that need Spark share one server, of the tree itself.
"""

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable
from contextlib import ExitStack, suppress
from pathlib import Path

from acker.runtime.server.sessions import owned_session
from acker.testing.session import SHORT_LIVED
from tests.kit import ROOT
from tests.kit.servers import settings_of
from tests.mutants.listed import MUTANTS, Mutant, listing

LONGEST_SECONDS = 300  # of one run of pytest on a mutant, which may never end
ENVIRONMENT = {
    "PYTHONDONTWRITEBYTECODE": "1",  # that of a mutant could outlive it
    "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",  # a second for each run
}
NEED_SPARK = ("tests/kafka/", "tests/spark/")
# What Python raises of code that makes no sense: such a mutant has shown nothing.
SENSELESS = re.compile(r'(failed on setup with ")?(SyntaxError|NameError|ImportError|ModuleNotFoundError)')


class Tree:
    """A copy of the tree in which tests run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "tree"
        self.home = folder / "home"  # of the Spark server
        self._pytest = folder / "pytest"
        self._report = folder / "report.xml"
        listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        found = subprocess.run(listed, cwd=ROOT, check=True, capture_output=True, text=True).stdout
        for name in filter(None, found.split("\0")):
            if (ROOT / name).is_file():  # else it was deleted
                (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, self.folder / name)
        for name in (".venv", "jars"):
            (self.folder / name).symlink_to(ROOT / name)

    def run(self, tests: Iterable[str], seconds: float | None = None) -> tuple[dict[str, str], str]:
        """Test that failed -> what it said, and what went wrong with the run as a whole.

        Args:
            seconds: after which pytest is killed.
        """
        self._report.unlink(missing_ok=True)
        options = ["-p", "no:cacheprovider", "--extended", "--all-faults"]
        places = [f"--basetemp={self._pytest}", f"--junit-xml={self._report}", f"--home={self.home}"]
        command = [sys.executable, "-m", "pytest", *options, *places, *tests]
        with subprocess.Popen(
            command,
            cwd=self.folder,
            env=os.environ | ENVIRONMENT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        ) as process:
            try:
                told, _ = process.communicate(timeout=seconds)
            except subprocess.TimeoutExpired:
                return {}, f"no end after {seconds} s"
            finally:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)  # with all that it may have left
        if process.returncode not in (0, 1):  # no test failed: pytest could not collect them
            return {}, told
        cases = list(ElementTree.parse(self._report).iter("testcase"))
        if any(case.find("skipped") is not None for case in cases):
            return {}, "a test was skipped"
        failed = {f"{case.get('classname')}::{case.get('name')}": case[0] for case in cases if len(case)}
        return {name: said.get("message") or "" for name, said in failed.items()}, ""

    def caught(self, mutant: Mutant) -> str | None:
        """Why a mutant is not caught by all the tests that should catch it; None where it is."""
        file = self.folder / mutant.file
        sound = file.read_text()
        file.write_text(mutant.applied_to(sound))
        try:
            failed, trouble = self.run(mutant.tests, LONGEST_SECONDS)
        finally:
            file.write_text(sound)
        senseless = next(filter(SENSELESS.match, failed.values()), None)
        if trouble or senseless:
            return f"the tests did not run: {trouble or senseless}"
        survived = len(mutant.tests) - len([test for test in mutant.tests if _is_among(test, failed)])
        return f"survived {survived} of {len(mutant.tests)} tests" if survived else None


def _is_among(test: str, failed: Iterable[str]) -> bool:
    """Whether a test has failed, or one of its variants."""
    name = test.replace(".py::", "::").replace("/", ".")
    return any(each == name or each.startswith(f"{name}[") for each in failed)


def main() -> int:
    """Try the mutants. Exit code 1 where a test fails without one, or one survives."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("words", nargs="*", help="only those with one of these in their name, file or tests")
    parser.add_argument(
        "--list", action="store_true", help="print the mutants, and the tests that catch them"
    )
    asked = parser.parse_args()
    if asked.list:
        print(listing(MUTANTS))
        return 0
    chosen = [m for m in MUTANTS if not asked.words or any(m.mentions(word) for word in asked.words)]
    for mutant in chosen:
        mutant.applied_to((ROOT / mutant.file).read_text())  # before anything runs: is one stale?
    tests = list(dict.fromkeys(test for mutant in chosen for test in mutant.tests))
    started = time.monotonic()
    with ExitStack() as stack:
        tree = Tree(Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mutants-"))))
        if any(test.startswith(NEED_SPARK) for test in tests):
            os.environ.update(SHORT_LIVED)
            stack.enter_context(owned_session(settings_of(str(tree.home))))
        failed, trouble = tree.run(tests)
        if failed or trouble:
            print("Without any mutant the tests should pass, but:", *failed, trouble, sep="\n")
            return 1
        print(f"{len(tests)} tests pass without a mutant ({time.monotonic() - started:.0f} s).\n", flush=True)
        survivors = [mutant for mutant in chosen if not tried(tree, mutant)]
    print(f"\n{len(chosen) - len(survivors)} of {len(chosen)} mutants caught", end=" ")
    print(f"in {time.monotonic() - started:.0f} s.")
    return 1 if survivors else 0


def tried(tree: Tree, mutant: Mutant) -> bool:
    """Whether a mutant is caught; prints its row of the table."""
    started = time.monotonic()
    fault = tree.caught(mutant)
    by = ", ".join(mutant.names) if fault is None else f"NOT CAUGHT: {fault}"
    print(f"{mutant.name:<72} {time.monotonic() - started:5.1f} s  {by}", flush=True)
    return fault is None


if __name__ == "__main__":
    sys.exit(main())

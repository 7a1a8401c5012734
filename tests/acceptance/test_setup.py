"""`acker setup` as it is called."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from acker.runtime.jars import default_folder
from acker.runtime.java import check_java, java_command


def setup(**environ: str) -> tuple[int, str, str]:
    done = subprocess.run(
        [sys.executable, "-m", "acker", "setup"],
        env={**os.environ, "PIPELINE_JARS": "", **environ},
        capture_output=True,
        text=True,
    )
    return done.returncode, done.stdout, done.stderr


def test_setup_says_which_java_and_which_jars_there_are() -> None:
    java = f"Java {check_java()}: {shutil.which(java_command())}"
    assert setup() == (0, f"{java}\nJars of Delta and Kafka: {default_folder()}\n", "")


def test_setup_without_java_says_what_to_install(tmp_path: Path) -> None:
    sentence = "Error: Install Java 17 or 21 and put it on the PATH or name its folder in JAVA_HOME.\n"
    assert setup(PATH=str(tmp_path), JAVA_HOME="") == (2, "", sentence)


def test_setup_looks_into_the_folder_that_is_named(tmp_path: Path) -> None:
    code, _, said = setup(PIPELINE_JARS=str(tmp_path))
    assert (code, said.partition(". ")[0]) == (2, f"Error: Delta's jars are not in {tmp_path}")

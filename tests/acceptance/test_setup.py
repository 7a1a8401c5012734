"""`acker setup` as it is called."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from acker.runtime.server import process as server
from acker.runtime.server.executors import packages
from acker.runtime.server.jars import default_folder
from acker.runtime.server.java import check_java, java_command
from acker.runtime.settings import Settings


def setup(*options: str, **environ: str) -> tuple[int, str, str]:
    done = subprocess.run(
        [sys.executable, "-m", "acker", "setup", *options],
        env={**os.environ, "PIPELINE_JARS": "", **environ},
        capture_output=True,
        text=True,
    )
    return done.returncode, done.stdout, done.stderr


def test_setup_says_which_java_and_which_jars_there_are() -> None:
    java = f"Java {check_java()}: {shutil.which(java_command())}"
    assert setup() == (0, f"{java}\nJars of Delta and Kafka: {default_folder()}\n", "")


@pytest.mark.extended
def test_setup_fetches_the_jars_of_s3_where_the_store_is_there() -> None:
    code, said, _ = setup(PIPELINE_STORE="s3://any/store")
    assert (code, "\nJars of S3: " in said) == (0, True)


@pytest.mark.extended
def test_setup_packs_what_executors_of_a_cluster_need() -> None:
    code, said, _ = setup(PIPELINE_STORE="s3://any/store", PIPELINE_SPARK_MASTER="spark://any:7077")
    assert (code, said.splitlines()[-1]) == (0, f"Python packages for executors: {packages()}")


def test_setup_without_java_says_what_to_install(tmp_path: Path) -> None:
    sentence = "Error: Install Java 17 or 21 and put it on the PATH or name its folder in JAVA_HOME.\n"
    assert setup(PATH=str(tmp_path), JAVA_HOME="") == (2, "", sentence)


def test_setup_looks_into_the_folder_that_is_named(tmp_path: Path) -> None:
    code, _, said = setup(PIPELINE_JARS=str(tmp_path))
    assert (code, said.partition(". ")[0]) == (2, f"Error: Delta's jars are not in {tmp_path}")


@pytest.mark.extended
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_server_takes_its_classes_from_the_file_in_which_setup_keeps_them(tmp_path: Path) -> None:
    code, told, _ = setup("--classes")
    kept = told.splitlines()[-1].removeprefix("Java's classes: ")
    assert (code, Path(kept).parent) == (0, default_folder().parent)

    settings = Settings.from_env({"PIPELINE_HOME": str(tmp_path), "PIPELINE_DRIVER_MEMORY": "1g"})
    started = server.start(settings, owned=True)
    try:
        assert kept in Path(f"/proc/{started.pid}/maps").read_text()
    finally:
        server.stop(settings)

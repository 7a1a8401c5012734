"""The SBOM has what production needs, and no more."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kit import ROOT


@pytest.mark.extended
def test_the_sbom_has_the_packages_and_jars_of_production(tmp_path: Path) -> None:
    subprocess.run([sys.executable, ROOT / "scripts" / "sbom.py"], cwd=tmp_path, check=True)
    written = json.loads((tmp_path / "sbom.json").read_text())
    found = {each["name"].lower(): each for each in written["components"]}
    assert {"apache-airflow", "pyspark", "delta-storage", "hadoop-aws"} <= set(found)
    assert {"pytest", "moto", "ruff", "mypy", "cyclonedx-bom"} & set(found) == set()
    (line,) = [
        line
        for line in (ROOT / "acker" / "runtime" / "server" / "ivy.sha256").read_text().splitlines()
        if "delta-storage" in line
    ]
    assert found["delta-storage"]["hashes"] == [{"alg": "SHA-256", "content": line.split()[0]}]
    assert {each["ref"] for each in written["dependencies"]} == {
        "root-component",
        *(each["bom-ref"] for each in written["components"]),
    }

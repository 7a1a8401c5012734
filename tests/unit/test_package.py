"""What is installed: one package, with all that lies in its folder."""

import subprocess
import sys
import zipfile
from pathlib import Path

from tests.kit import ROOT


def test_the_wheel_has_the_package_acker_with_every_file_of_it_and_the_licence(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    packed = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    files = {file.relative_to(ROOT) for file in (ROOT / "acker").rglob("*") if file.is_file()}
    assert packed == {str(file) for file in files if "__pycache__" not in file.parts}
    assert "acker-0.1.0.dist-info/licenses/LICENSE" in zipfile.ZipFile(wheel).namelist()

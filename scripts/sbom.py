"""Writes an SBOM of a production installation: a CycloneDX file with its Python packages and its jars.

`cyclonedx-py` describes the packages of this environment: their licences, and which needs which. What only
development needs is taken out. The jars that Ivy fetches for the Spark server are put in, with their hashes.
"""

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from acker.runtime.server.jars import listed_sums, sums_file

_ROOT = Path(__file__).resolve().parents[1]
_LISTS = [_ROOT / "acker" / "runtime" / "server" / name for name in ("ivy.xml", "s3.xml")]
_ITSELF = "root-component"


def main(target: Path) -> None:
    """Write the file, in a form that is the same each time.

    Raises:
        SystemExit: this environment is not what production is pinned to, or the file would not be valid.
    """
    described, pinned = json.loads(_of_environment()), _production()
    packages = [each for each in described["components"] if _name(each["name"]) in pinned]
    found = {_name(each["name"]): each["version"] for each in packages}
    for name, (version, condition) in pinned.items():
        if found.get(name, version if condition else None) != version:
            sys.exit(f"{name} {version} is not installed here. Call make setup, and then make sbom again.")
    jars = [jar for listed in _LISTS for jar in _jars(listed)]
    kept = {each["bom-ref"] for each in packages} | {_ITSELF}
    needs = [each for each in described["dependencies"] if each["ref"] in kept]
    for each in needs:
        each["dependsOn"] = sorted({*each.get("dependsOn", ())} & kept)
        if each["ref"] == _ITSELF:
            each["dependsOn"] += [jar["bom-ref"] for jar in jars]
    needs += [{"ref": jar["bom-ref"]} for jar in jars]
    text = json.dumps(described | {"components": packages + jars, "dependencies": needs}, indent=2) + "\n"
    if error := JsonStrictValidator(SchemaVersion.V1_6).validate_str(text):
        sys.exit(f"{target} would not be valid: {error}. Mend scripts/sbom.py.")
    target.write_text(text)
    print(f"{target}: {len(packages)} Python packages, {len(jars)} jars")


def _of_environment() -> str:
    program = str(Path(sys.executable).with_name("cyclonedx-py"))
    command = [program, "environment", "--output-reproducible", "--spec-version", "1.6"]
    command += ["--pyproject", str(_ROOT / "pyproject.toml"), sys.executable]
    return subprocess.check_output(command, text=True)


def _production() -> dict[str, tuple[str, str]]:
    """The version of each package of production, and the condition under which it is installed, if any."""
    text = (_ROOT / "requirements-production.txt").read_text()
    pins = re.findall(r"^([a-z0-9-]+)==(\S+)(?: ; ([^\\\n]+))?", text, re.MULTILINE)
    return {name: (version, condition) for name, version, condition in pins}


def _name(package: str) -> str:
    """The name of a package as indexes write it."""
    return re.sub(r"[-_.]+", "-", package).lower()


def _jars(listed: Path) -> Iterator[Mapping[str, Any]]:
    sums = listed_sums(sums_file(listed))
    for each in ElementTree.parse(listed).iter("dependency"):
        group, name, version = each.attrib["org"], each.attrib["name"], each.attrib["rev"]
        purl = f"pkg:maven/{group}/{name}@{version}?type=jar"
        digest = {"alg": "SHA-256", "content": sums[f"{name}-{version}.jar"]}
        yield {
            "type": "library",
            "bom-ref": purl,
            "group": group,
            "name": name,
            "version": version,
            "purl": purl,
            "hashes": [digest],
        }


if __name__ == "__main__":
    main(Path("sbom.json"))

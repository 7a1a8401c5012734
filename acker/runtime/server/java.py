"""The Java that runs Spark: its command, and the check of its version."""

import os
import re
import subprocess

from acker.core.errors import ServerError


def java_command() -> str:
    """The Java that `JAVA_HOME` names, or the one on the PATH."""
    home = os.environ.get("JAVA_HOME")
    return f"{home}/bin/java" if home else "java"


def check_java() -> str:
    """Check that Spark runs on the Java of `java_command`, and return its version, such as `17.0.12`.

    Raises:
        ServerError: there is no Java, or Spark does not run on it.
    """
    try:
        told = subprocess.run([java_command(), "-version"], capture_output=True, text=True).stderr
    except OSError:
        told = ""
    version = re.search(r'version "((?:17|21)(?:[.+-][^"]*)?)"', told)
    if version is None:
        raise ServerError("Install Java 17 or 21 and put it on the PATH or name its folder in JAVA_HOME.")
    return version[1]

"""What tests that start a Spark server share; and the server that several runs of pytest share.

`python -m tests.kit.servers FOLDER` runs one on few cores for few minutes until it is told to end.
"""

import os
import sys

from acker.runtime import server
from acker.runtime.sessions import serve
from acker.runtime.settings import Settings
from acker.runtime.tokens import read_token
from acker.testing.session import SHORT_LIVED


def settings_of(home: str) -> Settings:
    """Settings of a server that tests share. The developer's own environment takes no part in them."""
    return Settings.from_env({"PIPELINE_HOME": home, "PIPELINE_DRIVER_MEMORY": "4g"})


def remote_of(settings: Settings) -> str:
    """Where the server of a home listens, and its generated token, as SPARK_REMOTE says both."""
    running = server.find(settings)
    assert running is not None
    return f"{running.url}/;token={read_token(settings)}"


def main() -> None:
    """Run a server in a home."""
    os.environ.update(SHORT_LIVED)
    serve(settings_of(sys.argv[1]), None, lambda url: None)


if __name__ == "__main__":
    main()

"""What tests that start a Spark server of their own share."""

from acker.runtime.server import process as server
from acker.runtime.server.tokens import read_token
from acker.runtime.settings import Settings


def settings_of(home: str) -> Settings:
    """Settings of a server that tests share. The developer's own environment takes no part in them."""
    return Settings.from_env({"PIPELINE_HOME": home, "PIPELINE_DRIVER_MEMORY": "4g"})


def remote_of(settings: Settings) -> str:
    """Where the server of a home listens, and its generated token, as SPARK_REMOTE says both."""
    running = server.find(settings)
    assert running is not None
    return f"{running.url}/;token={read_token(settings)}"

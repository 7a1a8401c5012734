"""What tests that start a Spark server of their own share."""

from acker.runtime import server
from acker.runtime.settings import Settings
from acker.runtime.tokens import read_token


def remote_of(settings: Settings) -> str:
    """Where the server of a home listens, and its generated token, as SPARK_REMOTE says both."""
    running = server.find(settings)
    assert running is not None
    return f"{running.url}/;token={read_token(settings)}"

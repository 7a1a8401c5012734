"""The generated token: the secret that a client shows to the Spark server of its home.

Each server that is started without `SPARK_CONNECT_AUTHENTICATE_TOKEN` gets a token of its own. The token lies
in `<home>/server/token`, which its owner alone may read. It is removed with its server, so a token that
leaked opens no later server.
"""

import os
import secrets
from pathlib import Path

from acker.core.errors import ServerError
from acker.runtime.settings import Settings


def token_file(settings: Settings) -> Path:
    """The file of the token of a home's server."""
    return settings.home / "server" / "token"


def make_token(settings: Settings) -> str:
    """Make a token for the server that is about to start, in place of any that is there."""
    remove_token(settings)
    token = secrets.token_urlsafe(32)
    # Exclusive, so that the file is this one and not what somebody else has laid there.
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    with open(os.open(token_file(settings), flags, 0o600), "w") as file:
        file.write(token)
    return token


def read_token(settings: Settings) -> str | None:
    """The generated token of the home's server; None where it has none.

    Raises:
        ServerError: this user may not read the token.
    """
    try:
        return token_file(settings).read_text()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise ServerError(
            f"The token of the Spark server, {token_file(settings)}, cannot be read ({error.strerror}). Work "
            "as the user who started that server, or set PIPELINE_HOME to a folder of yours."
        ) from error


def remove_token(settings: Settings) -> None:
    """Delete the token of a server that has ended."""
    token_file(settings).unlink(missing_ok=True)

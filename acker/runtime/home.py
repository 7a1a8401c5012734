"""The error of a deployment whose home folder cannot be written."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from acker.core.errors import ServerError


@contextlib.contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Turn an `OSError` of the block into an error that names the folder, which is below `PIPELINE_HOME`.

    Raises:
        ServerError: the system refused to write.
    """
    try:
        yield
    except OSError as error:
        raise ServerError(
            f"{folder} cannot be written ({error.strerror}). Set PIPELINE_HOME to a folder of yours."
        ) from error

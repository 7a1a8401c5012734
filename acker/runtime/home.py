"""What is told where the home folder of a deployment cannot be written."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from acker.core.errors import ServerError


@contextlib.contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Name the folder, below `PIPELINE_HOME`, in which the block cannot write.

    Raises:
        ServerError: the system refused it.
    """
    try:
        yield
    except OSError as error:
        raise ServerError(
            f"{folder} cannot be written ({error.strerror}). Set PIPELINE_HOME to a folder of yours."
        ) from error

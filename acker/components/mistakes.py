"""Mistakes of an author that show before any row is made, told with the component that has them."""

import traceback
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.errors import (
    AnalysisException,
    PySparkAttributeError,
    PySparkException,
    PySparkTypeError,
    PySparkValueError,
)

from acker.core.errors import AckerError, BoltError

# What is said of a query or of a call, and not of a server that is busy or gone.
_OF_THE_AUTHOR = (AnalysisException, PySparkAttributeError, PySparkTypeError, PySparkValueError)


@contextmanager
def telling_who(kind: str, component: str) -> Iterator[None]:
    """Name the component where Spark refuses its frame, such as for a column that is not there.

    Args:
        kind: "Spout" or "Bolt".

    Raises:
        BoltError: in place of Spark's error.
    """
    try:
        yield
    except _OF_THE_AUTHOR as error:
        raise BoltError(
            f"{kind} {component}: {sentence_of(error)} Mend it and run again.", component=component
        ) from error


@contextmanager
def telling_where(bolt: str) -> Iterator[None]:
    """Name the bolt and the line where its function raises instead of returning a DataFrame.

    An error of Spark's is left as it is: it may be no fault of the function's.

    Raises:
        BoltError: in place of the function's error.
    """
    try:
        yield
    except (AckerError, PySparkException):
        raise
    except Exception as error:
        if type(error).__module__.partition(".")[0] == "grpc":  # Spark's server is not there
            raise
        place = traceback.extract_tb(error.__traceback__)[-1]
        raise BoltError(
            f"Bolt {bolt} raises {type(error).__name__} where it builds its DataFrame: {error} "
            f"({place.filename}, line {place.lineno}). Mend it and run again.",
            component=bolt,
        ) from error


def sentence_of(error: Exception) -> str:
    """The sentence of Spark's error, without the error's class, its state and the plan of the query."""
    first = str(error).partition(" SQLSTATE:")[0].strip().partition("\n")[0]
    text = first.partition("] ")[2] if first.startswith("[") else first
    return f"{text.rstrip('. ')}."

"""Every error that this project raises on purpose. Each message names the fault and the remedy.

An error has the component, the batch and the table of its message as attributes, where they are known.

AckerError
├── TopologyError    a topology that cannot be built, imported or run as it stands
├── SettingsError    a setting or an argument with a value that cannot serve
├── SourceError      a source that cannot be read as a spout, or a Kafka cluster that does not answer
├── BoltError        a bolt that broke its contract: no anchor, a foreign anchor, reserved columns
├── BatchHeld        a batch that raised before, and whose next try is not due yet
├── StoreError       a Delta table of the store that is missing, damaged or cannot be written
│   └── InTheWay     a commit that was refused because of another one, and that is to be tried again
├── ServerError      the Spark Connect server that cannot be started, found or stopped
└── UnknownMessage   a message that the ledger has never seen
"""


class AckerError(Exception):
    """Base of the project's errors; the command line prints it as one sentence, without a traceback.

    Args:
        message: the sentence.
        component: the component that the message names.
        batch: the number of the component's batch.
        table: path or URI of the Delta table, of the store or published, as `Store.path` writes it.
    """

    def __init__(
        self,
        message: str,
        *,
        component: str | None = None,
        batch: int | None = None,
        table: str | None = None,
    ) -> None:
        super().__init__(message)
        self.component = component
        self.batch = batch
        self.table = table


class TopologyError(AckerError):
    """The topology cannot be built, imported or run as it stands."""


class SettingsError(AckerError):
    """A setting or an argument has a value that cannot serve."""


class SourceError(AckerError):
    """A source cannot be read as a spout, or a Kafka cluster does not answer."""


class BoltError(AckerError):
    """A bolt broke its contract, so its batch cannot be trusted."""


class BatchHeld(AckerError):
    """A batch raised before through no fault of a row, and its next try is not due yet."""


class StoreError(AckerError):
    """A Delta table of the store is missing, damaged or cannot be written."""


class InTheWay(StoreError):
    """A commit was refused because of another one that came first. The work can be done again."""


class ServerError(AckerError):
    """The Spark Connect server cannot be started, found or stopped."""


class UnknownMessage(AckerError):
    """The ledger has never seen this message, or a text is not the name of a message."""

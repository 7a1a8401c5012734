"""The names that authors of topologies import. Each is loaded at its first use, with Spark if it needs Spark.

from acker import FileSpout, Topology, fail_when
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from acker.components.anchors import collect_anchors, fail_when, merge_anchors
    from acker.components.collector import Collector, Context, PermanentFailure, RichBolt, Tuple
    from acker.components.kafka_bolt import KafkaBolt
    from acker.core.errors import AckerError, BoltError, SourceError, StoreError, TopologyError
    from acker.core.retry import ExponentialBackoff, FailedAttempt
    from acker.spouts import DeltaSpout, FileSpout, Spout
    from acker.spouts.kafka.schemes import Avro, Bytes, Json, KeyValue, Scheme, Text
    from acker.spouts.kafka.spout import KafkaSpout
    from acker.targets.aggregate import DeltaAggregate
    from acker.targets.append import DeltaAppend
    from acker.targets.base import Target
    from acker.targets.functions import Count, Max, Min, Sum
    from acker.targets.kafka import KafkaTarget
    from acker.topology.hooks import Notice
    from acker.topology.topology import Topology

_ROOMS = {
    "acker.components.anchors": ("collect_anchors", "fail_when", "merge_anchors"),
    "acker.components.collector": ("Collector", "Context", "PermanentFailure", "RichBolt", "Tuple"),
    "acker.components.kafka_bolt": ("KafkaBolt",),
    "acker.core.errors": ("AckerError", "BoltError", "SourceError", "StoreError", "TopologyError"),
    "acker.core.retry": ("ExponentialBackoff", "FailedAttempt"),
    "acker.spouts": ("DeltaSpout", "FileSpout", "Spout"),
    "acker.spouts.kafka.spout": ("KafkaSpout",),
    "acker.spouts.kafka.schemes": ("Avro", "Bytes", "Json", "KeyValue", "Scheme", "Text"),
    "acker.targets.aggregate": ("DeltaAggregate",),
    "acker.targets.functions": ("Count", "Max", "Min", "Sum"),
    "acker.targets.append": ("DeltaAppend",),
    "acker.targets.base": ("Target",),
    "acker.targets.kafka": ("KafkaTarget",),
    "acker.topology.hooks": ("Notice",),
    "acker.topology.topology": ("Topology",),
}
_MODULES = {name: module for module, names in _ROOMS.items() for name in names}

__all__ = [  # noqa: RUF022 # by subject
    "Topology",
    "DeltaSpout",
    "FileSpout",
    "KafkaSpout",
    "Spout",
    "Avro",
    "Bytes",
    "Json",
    "KeyValue",
    "Scheme",
    "Text",
    "collect_anchors",
    "fail_when",
    "merge_anchors",
    "Collector",
    "Context",
    "KafkaBolt",
    "RichBolt",
    "Tuple",
    "PermanentFailure",
    "Target",
    "DeltaAppend",
    "DeltaAggregate",
    "KafkaTarget",
    "Count",
    "Max",
    "Min",
    "Sum",
    "ExponentialBackoff",
    "FailedAttempt",
    "Notice",
    "AckerError",
    "BoltError",
    "SourceError",
    "StoreError",
    "TopologyError",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'acker' has no attribute {name!r}; it has {', '.join(__all__)}")
    try:
        value = getattr(import_module(_MODULES[name]), name)
    except ImportError as error:
        if "acker[kafka]" not in str(error):
            raise
        value = _without(name, str(error))
    globals()[name] = value
    return value


def _without(name: str, why: str) -> type:
    """A stand-in for a class that needs a package which is not installed.

    The class can be imported. A call of it raises a SettingsError.

    Args:
        name: the name of the class.
        why: the text of the error.
    """

    def refuse(self: Any, *given: Any, **named: Any) -> None:
        raise import_module("acker.core.errors").SettingsError(why)

    return type(name, (), {"__init__": refuse, "__doc__": why})


def __dir__() -> list[str]:
    return sorted(__all__)

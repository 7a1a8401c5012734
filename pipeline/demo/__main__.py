"""`make run`: count words under Airflow, through failures, retries and killings, and check the result.

LINES (100,000) sets about how many new lines are fed; a second run feeds the next files. With SOURCE=kafka
they are records of a topic, and a Kafka broker starts as well. With SPARK=cluster a cluster of two workers
runs Spark's jobs. With ONCE=1 it ends by itself, its exit code the verdict; else it stays until Ctrl-C.
"""

import os
import sys
from contextlib import ExitStack

import click

from acker.core.errors import AckerError, SettingsError
from acker.runtime.server.ports import is_listening
from acker.runtime.settings import LOOPBACK, Settings, one_of, positive_number
from embedded.broker import Broker, running_broker
from embedded.cluster import Cluster, running_cluster

DEFAULT_LINES = 100_000
SERVERS = "PIPELINE_KAFKA_SERVERS"  # which the topology reads when it is imported, here and in Airflow
_PORT = 9092  # Kafka's own


def main() -> None:
    """Run the demonstration."""
    try:
        settings, lines = Settings.from_env(), positive_number("LINES", DEFAULT_LINES)
        os.umask(settings.umask)
        if settings.remote is not None:
            raise SettingsError("`make run` starts a Spark server of its own: unset SPARK_REMOTE.")
        with ExitStack() as stack:
            broker = cluster = None
            os.environ.pop(SERVERS, None)
            from_kafka = one_of("SOURCE", ("files", "kafka")) == "kafka"
            if one_of("SPARK", ("local", "cluster")) == "cluster":
                cluster = _start_cluster(settings, stack)
                settings = Settings.from_env()
            if from_kafka:
                broker = _start_kafka(settings, stack)
            from pipeline.demo.show import demonstrate

            sys.exit(demonstrate(settings, lines, bool(os.environ.get("ONCE")), broker, cluster))
    except AckerError as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(2)
    except KeyboardInterrupt:
        click.echo("Stopped. `make run` goes on from here.", err=True)
        sys.exit(130)


def _start_cluster(settings: Settings, stack: ExitStack) -> Cluster:
    if settings.is_on_cluster:
        raise SettingsError("`make run SPARK=cluster` starts a cluster: unset PIPELINE_SPARK_MASTER.")
    click.echo("Starting a Spark cluster of two workers …")
    cluster = stack.enter_context(running_cluster(settings.home / "cluster"))
    os.environ["PIPELINE_SPARK_MASTER"] = cluster.url
    click.echo(f"Its master is {cluster.url}; see {cluster.page}")
    return cluster


def _start_kafka(settings: Settings, stack: ExitStack) -> Broker:
    click.echo("Starting Kafka …")
    port = None if is_listening(LOOPBACK, _PORT) else _PORT
    broker = stack.enter_context(running_broker(settings.home / "broker", port))
    os.environ[SERVERS] = broker.servers
    click.echo(f"Kafka is at {broker.servers}; commands of yours need {SERVERS}={broker.servers}")
    return broker


if __name__ == "__main__":
    main()

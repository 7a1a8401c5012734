"""`acker setup`: checks Java, and fetches the jars that the Spark server needs beside Python packages."""

import shutil

import click

from acker.runtime.server.executors import packages
from acker.runtime.server.jars import jars
from acker.runtime.server.java import check_java, java_command
from acker.runtime.settings import Settings


@click.command()
@click.option(
    "--classes", is_flag=True, help="Keep Java's classes too, with which a server starts sooner (220 MB)."
)
def setup(classes: bool) -> None:
    """Check Java and fetch the jars that the Spark server loads, unless they are there already.

    If PIPELINE_STORE is on S3, the jars for S3 are fetched too. A server that starts without its jars fetches
    them then. If PIPELINE_JARS names a folder of your own, the jars in it are taken and none are fetched. If
    PIPELINE_SPARK_MASTER is a cluster, the Python packages for its executors are packed too.
    """
    settings = Settings.from_env()
    click.echo(f"Java {check_java()}: {shutil.which(java_command())}")
    found = jars(settings.jars, settings.is_on_s3)
    click.echo(f"Jars of Delta and Kafka: {found[0].parent}")
    if settings.is_on_s3:
        click.echo(f"Jars of S3: {found[-1].parent}")
    if settings.is_on_cluster:
        click.echo(f"Python packages for executors: {packages()}")
    if classes:
        from acker.runtime.server.classes import keep_classes

        click.echo(f"Java's classes: {keep_classes(settings)}")

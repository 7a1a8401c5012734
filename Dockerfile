# What docker-compose.yml runs, but for Postgres, Kafka and S3: Python, Java, and what production needs of Python packages and jars.
FROM python:3.11.16-slim-bookworm@sha256:a36c24f9cbdf4fd0f52d67f0823eeac19c2028c637cecc392d97f980d4fec56b
# A volume begins with the owner of the folder over which it is mounted.
RUN apt-get update \
 && apt-get install --yes --no-install-recommends git procps openjdk-17-jre-headless \
 && rm -rf /var/lib/apt/lists/* \
 && useradd --uid 10001 --create-home acker \
 && install --directory --owner acker --group acker /airflow /data /lake
WORKDIR /opt/acker
COPY . .
RUN UV_COMPILE_BYTECODE=1 scripts/setup.sh --production \
 && .venv/bin/python -m compileall -q acker dags pipeline \
 && PIPELINE_STORE=s3://any/store PIPELINE_SPARK_MASTER=spark://any:7077 .venv/bin/acker setup
ENV PATH=/opt/acker/.venv/bin:$PATH
USER 10001:10001

# Everything that docker-compose.yml runs, but for Postgres: Python, Java, and what `make setup` brings.
FROM python:3.11-slim-bookworm
RUN apt-get update \
 && apt-get install --yes --no-install-recommends make git procps openjdk-17-jre-headless \
 && rm -rf /var/lib/apt/lists/*
WORKDIR /opt/acker
COPY . .
RUN make setup
ENV PATH=/opt/acker/.venv/bin:$PATH

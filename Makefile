.DEFAULT_GOAL := help
.PHONY: help setup check test run bench requirements clean

python := .venv/bin/python
typed := acker pipeline bench

# Airflow and its providers share one environment with the project's packages where they are deployed, so the
# pins are chosen among those that fit both.
airflow := apache-airflow==3.3.2 apache-airflow-providers-apache-spark==6.3.4 \
           apache-airflow-providers-standard==1.21.0 confluent-kafka

help: ## List the targets
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## /\1|/' | awk -F'|' '{printf "  make %-14s %s\n", $$1, $$2}'

setup: ## Make .venv and fetch the jars; instant when nothing has changed
	@scripts/setup.sh

check: setup ## Lint, format and types
	$(python) -m ruff check .
	$(python) -m ruff format --check .
	$(python) -m mypy $(typed)

test: setup ## All tests, on a Spark server of their own; ARGS goes to pytest
	$(python) -m pytest $(ARGS)

run: setup ## The demonstration; LINES=1000000 sets its size
	$(python) -m pipeline.demo

bench: setup ## Measure against Storm's figures and a plain pipeline
	$(python) -m bench

requirements: setup ## Compile requirements.txt from requirements.in; ARGS=--upgrade raises all pins
	cp requirements.txt .venv/airflow.txt
	printf '%s\n' $(airflow) | .venv/bin/uv pip compile --quiet --no-header --no-annotate $(ARGS) \
		requirements.in - -o .venv/airflow.txt
	.venv/bin/uv pip compile --quiet --no-header --no-annotate $(ARGS) -c .venv/airflow.txt \
		requirements.in -o requirements.txt

clean: ## Remove what setup and the tools made; data/ stays
	rm -rf .venv jars .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

.DEFAULT_GOAL := help
.PHONY: help setup classes check docs reference test test-all test-cluster test-faults mutants run bench soak requirements jar-sums pip-audit sbom clean

python := .venv/bin/python
typed := acker embedded pipeline dags bench scripts
# For Python 3.11 and newer, and for all systems.
compile = .venv/bin/uv pip compile --quiet --no-annotate --custom-compile-command "make requirements" \
	--universal --python-version 3.11 --generate-hashes $(ARGS)

help: ## List the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1|/' | awk -F'|' '{printf "  make %-14s %s\n", $$1, $$2}'

setup: ## Make .venv with everything in it; instant when nothing has changed
	@scripts/setup.sh

classes: setup
	@.venv/bin/acker setup --classes >/dev/null

check: setup ## Lint, format, types, which room imports which, and the page that docstrings make
	$(python) -m ruff check .
	$(python) -m ruff format --check .
	.venv/bin/lint-imports --no-logo
	$(python) -m mypy $(typed)
	$(python) scripts/reference.py --check

docs: setup ## Build the site of docs/ into data/site, strictly
	.venv/bin/zensical build --strict --clean

reference: setup ## Write what pages of the docs say of docstrings and settings
	$(python) scripts/reference.py

test: setup ## Tests that hold every guarantee; with ARGS all that it names, for it goes to pytest
	$(if $(ARGS),$(python) -m pytest --extended $(ARGS),@scripts/test.sh)

test-all: classes ## All tests but for rare faults and variants; THIRD=2 leaves out two thirds of what make test leaves out
	@scripts/test.sh $(if $(THIRD),--third $(THIRD),--extended)

test-faults: $(if $(ARGS),setup,classes) ## Every fault and variant, of which the others try a part; with ARGS the faults that it names
	$(if $(ARGS),$(python) -m pytest tests/faults --extended --all-faults $(ARGS),@scripts/test.sh --extended --all-faults)

test-cluster: setup ## A cluster of two workers and an S3 server leave the rows that one machine leaves; ARGS goes to pytest
	$(python) -m pytest tests/cluster --extended --all-faults $(ARGS)

mutants: setup ## Deliberate bugs, each of which a test must catch; ARGS chooses some by words
	$(python) -m tests.mutants $(ARGS)

run: setup ## The demonstration under Airflow; ONCE=1 ends by itself, LINES=1000000 sets its size, SOURCE=kafka reads Kafka, SPARK=cluster runs on a cluster
	$(python) -m pipeline.demo

bench: setup ## Measure against Storm's figures and a plain pipeline
	$(python) -m bench

soak: setup ## Days of cycles in minutes: what grows with them; MINUTES (30) says how long
	$(python) -m bench.soak

requirements: setup ## Compile requirements*.txt, with hashes, from requirements*.in; ARGS=--upgrade raises all pins
	$(compile) requirements-production.in -o requirements-production.txt
	$(compile) --constraints requirements-production.txt requirements.in -o requirements.txt
	$(compile) --constraints requirements.txt requirements-build.in -o requirements-build.txt

jar-sums: setup ## Write the SHA-256 of each jar beside the lists of jars, after a list has changed
	$(python) scripts/jar_sums.py

pip-audit: setup ## Ask for known vulnerabilities of the pinned packages; ARGS="-s osv" asks another database
	.venv/bin/pip-audit --strict --disable-pip --require-hashes -r requirements.txt -r requirements-build.txt $(ARGS)

sbom: setup ## Write sbom.json, a CycloneDX file with the Python packages and jars of production
	$(python) scripts/sbom.py

clean: ## Remove what setup and the tools made; data/ stays
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

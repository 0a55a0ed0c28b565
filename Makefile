# Drystone's commands. Needs make, Python 3.11 and Java 17; everything else goes into .venv and build/.

PYTHON ?= python3.11
BIN := .venv/bin
UV_VERSION := $(shell sed -n 's/^uv==//p' requirements.txt)
UV := VIRTUAL_ENV=.venv UV_HTTP_TIMEOUT=180 $(BIN)/uv --no-progress
JAVA := $(if $(JAVA_HOME),$(JAVA_HOME)/bin/java,java)
CHROMIUM := $(shell command -v chromium)
INITDB := $(firstword $(wildcard /usr/lib/postgresql/*/bin/initdb) $(shell command -v initdb))
# uv does not read pip's settings: a package mirror that is set for pip is handed over.
ifdef PIP_INDEX_URL
export UV_DEFAULT_INDEX ?= $(PIP_INDEX_URL)
endif

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:
.PHONY: help setup chromium screenshots demo demo-kafka ui cluster cluster-down test test-all simulate bench lint docs requirements clean java postgres

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-13s %s\n", $$1, $$2}' Makefile

setup: .venv/.drystone ## make or update the environment in .venv (the others do it by themselves)

demo: setup java $(if $(ON),postgres) ## the whole block lifecycle on real data, through Airflow and Spark; BUCKET=s3: on an S3 server; ON=cluster: on the cluster
	@$(BIN)/python demo/run.py $(or $(ON),$(BUCKET))

demo-kafka: setup java ## flights from a real Kafka broker into blocks, each message exactly once, through Airflow and Spark
	@$(BIN)/python demo/kafka_run.py

ui: setup java ## the same Airflow with its UI, on the bucket of the last demo (BUCKET=s3): address and login are printed, Ctrl-C stops it
	@$(BIN)/python demo/ui.py $(BUCKET)

cluster: setup java postgres ## all of docker-compose.yaml without Docker, until cluster-down; run again, it starts what has died
	@$(BIN)/python -m drystone.testing.cluster up

cluster-down: setup ## end the cluster, whatever state it is in; its data stays in .cluster
	@$(BIN)/python -m drystone.testing.cluster down

test: lint java chromium ## all checks and all quick tests
	@$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder -m "not slow"

test-all: lint java chromium postgres ## all checks and all tests, the slow ones too
	@$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder

simulate: setup ## lives of a stream on a failing bucket, by the thousand, with a summary; SEEDS=10000 FIRST=0
	@$(BIN)/python -m drystone.testing.simulate --seeds $(or $(SEEDS),1000) --first $(or $(FIRST),0)

bench: setup java ## measure against plain Spark and DuckDB, and print the tables; QUICK=1: a small part of it
	@$(BIN)/python -m benchmarks $(if $(QUICK),--quick)

lint: setup ## ruff, mypy and the import rules
	@$(BIN)/ruff check --quiet --output-format concise
	@$(BIN)/ruff format --check --quiet || { $(BIN)/ruff format --check; exit 1; }
	@$(BIN)/mypy --no-error-summary include/drystone
	@$(BIN)/lint-imports --no-logo > .venv/lint-imports.txt || { cat .venv/lint-imports.txt; exit 1; }

docs: setup ## write the reference pages that follow from the code
	@$(BIN)/python docs/generate.py

screenshots: setup chromium ## make the pictures of docs/images anew, in a real browser
	@SCREENSHOTS=docs/images $(BIN)/python -m pytest -q tests/browser/test_screenshots.py

requirements: setup ## resolve requirements.in into requirements.txt, keeping the pins that still fit
	@$(UV) pip compile requirements.in -o requirements.txt --quiet --no-emit-index-url --python-version 3.11 \
	  --custom-compile-command "make requirements"

clean: ## remove everything that these commands made
	@! test -d .cluster || $(BIN)/python -m drystone.testing.cluster down
	@rm -rf .venv build .airflow .cluster .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis spark-warehouse
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

chromium:
	@test -n "$(CHROMIUM)" || \
	  { test "$$(id -u)" = 0 && echo "Installing Debian's Chromium …" && \
	    { apt-get update && apt-get install --yes --no-install-recommends chromium; } > /dev/null; } || \
	  { echo "Chromium is needed, and there is none: apt-get install chromium" >&2; exit 1; }

java:
	@$(JAVA) -version 2>&1 | grep -qE 'version "(1[7-9]|2[0-9])[.".-]' || \
	  { echo "Java 17 is needed, and '$(JAVA)' is not it: apt-get install openjdk-17-jre-headless" >&2; exit 1; }

postgres:
	@test -n "$(INITDB)" || \
	  { test "$$(id -u)" = 0 && echo "Installing Debian's PostgreSQL …" && \
	    { apt-get update && apt-get install --yes --no-install-recommends postgresql; } > /dev/null; } || \
	  { echo "PostgreSQL is needed, and there is no initdb: apt-get install postgresql" >&2; exit 1; }

.venv/.drystone: .venv/.requirements pyproject.toml $(wildcard spark_jobs/*)
	@$(UV) pip install --quiet --no-deps --no-build-isolation --reinstall-package drystone --editable .
	@touch $@

.venv/.requirements: requirements.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' 2>/dev/null || \
	  { echo "Python 3.11 is needed, and '$(PYTHON)' is not it: apt-get install python3.11 python3.11-venv" >&2; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv --clear .venv > /dev/null || \
	  { echo "$(PYTHON) cannot make environments: apt-get install python3.11-venv" >&2; exit 1; }
	@echo "Installing the packages of requirements.txt into .venv (the first time some 700 MB, a few minutes) …"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)
	@$(UV) pip sync --quiet requirements.txt
	@touch $@

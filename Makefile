# Everything sets itself up: a Python ≥ 3.11 and PyPI are all a fresh machine needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
COMPILED := $(CURDIR)/build/compiled
SEEDS ?= 1000
# Tests wait more than they work; those of one file stay together, as they share a broker or Spark.
WORKERS ?= 3

# Sets and dictionaries keep their strings in the same order, so that a run is like the one before.
export PYTHONHASHSEED ?= 0
# Hundreds of processes import the same modules: compiling them each time would be most of a start.
unexport PYTHONDONTWRITEBYTECODE
MINUTES ?= 5
EXAMPLES ?= 500
SEED ?=
TAKEOVERS ?= 200
PYTHONS ?=
UPGRADE ?=
QUICK ?=

.PHONY: help demo demo-cluster test test-compiled fuzz knock chaos chaos-cluster chaos-lanes chaos-workers peers check format bench bench-peers sim messages docs pages release lock clean

help:  ## Show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 22

$(READY): pyproject.toml requirements-dev.lock
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Semel needs Python 3.11 or newer: make PYTHON=python3.12 ...")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-dev.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

# The wheel that SEMEL_COMPILE=1 makes, beside the source; an empty folder where that cannot be.
$(COMPILED)/.ready: $(READY) setup.py $(shell find src -name '*.py')
	rm -rf $(COMPILED) build/lib* build/temp* build/wheel && mkdir -p $(COMPILED)
	@echo "compiling, which takes minutes, once …"
	@SEMEL_COMPILE=1 $(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir build/wheel . \
	    && $(BIN)/python -m pip install --quiet --no-deps --target $(COMPILED) build/wheel/*.whl \
	    || echo "it could not be compiled: what follows is about plain Python"
	@touch $@

demo: $(READY)  ## A PySpark pipeline under kills: exactly once beside at least once
	$(BIN)/python -m examples.demo

demo-cluster: $(READY)  ## The same pipeline on three nodes, the leader killed and frozen in turns
	$(BIN)/python -m examples.demo --cluster

test: $(READY)  ## All tests that need nothing but PyPI
	$(BIN)/python -m pytest -q -n $(WORKERS) --dist loadfile --no-loadscope-reorder

test-compiled: $(COMPILED)/.ready  ## The tests of the broker on the compiled modules
	PYTHONPATH=$(COMPILED) $(BIN)/python -m pytest -q -n $(WORKERS) --dist loadfile \
	    --ignore=tests/mutants --ignore=tests/spark

fuzz: $(READY)  ## Draw new cases of the properties for MINUTES=n; a failure says how to repeat it
	WORKERS=$(WORKERS) $(BIN)/python tools/fuzz.py --minutes $(MINUTES) --examples $(EXAMPLES) $(SEED:%=--seed %)

knock: $(READY)  ## A million connections of what can be sent before a sign-in; SEED=n repeats a round
	$(BIN)/python tools/knock.py $(SEED:%=--seed %)

chaos: $(READY)  ## Kill every process of a pipeline at every step; takes about half an hour
	$(BIN)/python -m pytest -q -m "" -n $(WORKERS) --dist worksteal \
	    tests/spark/test_kills.py tests/spark/test_narrowest_window.py tests/spark/test_workers.py \
	    tests/spark/test_paired_kills.py

chaos-cluster: $(READY)  ## TAKEOVERS=n leaders of a cluster killed, frozen, cut off; about 20 minutes
	$(BIN)/python -m chaos --takeovers $(TAKEOVERS)

chaos-lanes: $(READY)  ## The same on nodes that lead four lanes between them
	$(BIN)/python -m chaos --lanes 4 --takeovers $(TAKEOVERS)

chaos-workers: $(READY)  ## TAKEOVERS=n of four workers on files killed, frozen, stopped
	$(BIN)/python -m chaos --workers 4 --takeovers $(TAKEOVERS)

peers: $(READY)  ## Clients, tools and stores from Maven, Go, PyPI and Debian with Semel, and ours on Apache Kafka
	$(BIN)/python -m pytest -q -o timeout=900 peers
	for several in workers lanes; do $(BIN)/python -m pytest -q -o timeout=900 -p no:semel \
	    -p peers.$${several}_in_place peers/test_franz_go.py peers/test_java_client.py || exit 1; done
	$(BIN)/python -m pytest -q -o timeout=900 -p no:semel -p peers.kafka_in_place -m "" \
	    --deselect tests/spark/test_narrowest_window.py::test_no_batch_is_written_again_though_spark_has_noted_none \
	    tests/cli tests/client/test_admin.py tests/client/test_with_broker.py tests/client/test_remade_topics.py \
	    tests/client/consuming tests/app \
	    $(addprefix tests/spark/test_,$(addsuffix .py,committing pipelines volume stream_reader batch_reader \
	    narrowest_window))

check: $(READY)  ## Format, lint, types, import contract, generated files, the site
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tools/generate_messages.py --check
	$(BIN)/python tools/generate_compatibility.py --check
	$(BIN)/python tools/generate_pages.py --check
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	$(BIN)/hadolint deploy/Dockerfile examples/cluster/Dockerfile

format: $(READY)  ## Format and sort imports
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

messages: $(READY)  ## Generate src/semel/wire/messages and COMPATIBILITY.md again
	$(BIN)/python tools/generate_messages.py
	$(BIN)/python tools/generate_compatibility.py

docs: $(READY)  ## Build the site in build/site
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@echo "it begins at build/site/index.html"

pages: $(READY)  ## Write again what pages tell of the code: metrics, alerts, settings
	$(BIN)/python tools/generate_pages.py

sim: $(READY)  ## Simulate SEEDS=n runs with crashes and power losses
	$(BIN)/python -m semel.verify --seeds $(SEEDS)

bench: $(COMPILED)/.ready  ## Measure, as ratios within one run; results in bench/results
	PYTHONPATH=$(COMPILED) $(BIN)/python -m bench

bench-peers: $(COMPILED)/.ready  ## Beside Apache Kafka and Spark's connector, from Maven Central; writes docs/beside-kafka.md
	$(BIN)/python -m bench.beside_kafka $(QUICK:%=--quick)
	$(BIN)/python -m bench --peers $(QUICK:%=--quick)

release: $(READY)  ## Make and try sdist, wheels (compiled for PYTHONS="…" too), hashes and an SBOM in build/release
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-release.lock
	$(BIN)/python tools/release.py $(PYTHONS)

lock: $(READY)  ## Write the locks again; UPGRADE=--upgrade takes the newest of everything
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-release.lock
	$(BIN)/python tools/lock.py $(UPGRADE)

clean:  ## Remove what the other commands made
	rm -rf $(VENV) build .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache

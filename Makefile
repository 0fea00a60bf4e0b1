# Two commands matter: `make demo` and `make test`. Each sets up .venv and then does its job.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check -q

SOURCES := $(shell find src native CMakeLists.txt pyproject.toml README.md -type f \
	-not -name '*.so' -not -path '*/__pycache__/*')

.PHONY: demo test docs lint format bench bench-everything bench-peers faults fuzz fuzz-python \
	portable sanitize frameworks matrix dist clean

demo: $(VENV)/package.stamp $(VENV)/demo.stamp
	@$(BIN)/python examples/demo.py

# Two files of tests at a time.
test: lint
	$(BIN)/python -m pytest -n 2 --dist loadfile

# The docs as a site, in build/site. Every warning is an error.
docs: $(VENV)/tools.stamp
	$(PIP) install --group docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

lint: $(VENV)/package.stamp $(VENV)/test.stamp
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy

format: $(VENV)/test.stamp
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

bench: $(VENV)/package.stamp $(VENV)/test.stamp
	$(BIN)/python benchmarks/run.py

# Every job beside every peer, in about six minutes; the table goes into docs/performance.md.
bench-everything: $(VENV)/package.stamp $(VENV)/test.stamp
	$(PIP) install --group frameworks --group peers
	$(BIN)/python benchmarks/bench_everything.py --write
	$(BIN)/python benchmarks/charts.py

# tfx-bsl brings Apache Beam and other versions of TensorFlow's dependencies: a place of its own.
bench-peers:
	test -d .venv-peers || $(PYTHON) -m venv .venv-peers
	.venv-peers/bin/python -m pip -q install tfx-bsl tensorflow-cpu==2.21.0 safetensors pyarrow .
	.venv-peers/bin/python benchmarks/run.py tfrecord

# PyTorch and JAX are large and optional: their tests run wherever they are installed.
frameworks: $(VENV)/package.stamp $(VENV)/test.stamp
	$(PIP) install --group frameworks
	$(BIN)/python -m pytest tests/frameworks tests/feeds/test_tfds.py
	$(BIN)/python -m pytest tests/test_docs.py -k pytorch

fuzz:
	native/fuzz/run.sh

portable: $(VENV)/tools.stamp
	PYTHON=$(BIN)/python native/portable.sh

# Threads, memory and undefined behaviour, under load: what is checked is tests/native/stress.py.
sanitize: $(VENV)/package.stamp $(VENV)/test.stamp
	native/sanitize.sh $(BIN)/python

# Hundreds of kills, and readers that race with writers for half a minute each: twenty minutes.
faults: $(VENV)/package.stamp $(VENV)/test.stamp
	FERRY_FAULTS=all $(BIN)/python -m pytest tests/faults
	$(BIN)/python tests/faults/endurance.py

# The wheel on each Python of this machine, with the lowest and the newest dependencies.
PYTHONS ?=
TESTS ?= tests
matrix: $(VENV)/release.stamp
	$(BIN)/python release/matrix.py $(PYTHONS) --tests $(TESTS) $(if $(RESUME),--resume) \
		--kinds lowest newest $(if $(TENSORFLOW),tensorflow)

# What is uploaded: the source distribution and the wheels, checked and tried out, in dist/.
dist: $(VENV)/release.stamp
	release/dist.sh $(BIN)/python

# The parsers that are written in Python.
RUNS ?= 1000000
FUZZ_TARGETS := hdf5 zip riegeli textproto arrow parquet npz keras savedmodel checkpoint structure notes
fuzz-python: $(VENV)/package.stamp $(VENV)/test.stamp
	$(PIP) install --group fuzz
	for target in $(FUZZ_TARGETS); do \
		$(BIN)/python tests/fuzz/run.py $$target -runs=$(RUNS) || exit 1; \
	done

# pip knows dependency groups from 25.1 on; Python 3.11 brings 23.2.
$(VENV)/tools.stamp: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) install "pip>=25.1"
	$(PIP) install --group build
	@touch $@

# For the formats that need it.
$(VENV)/demo.stamp: $(VENV)/tools.stamp
	$(PIP) install --group demo
	@touch $@

$(VENV)/release.stamp: $(VENV)/tools.stamp
	$(PIP) install --group release
	@touch $@

$(VENV)/package.stamp: $(VENV)/tools.stamp $(SOURCES)
	$(PIP) install --no-build-isolation .
	@touch $@

$(VENV)/test.stamp: $(VENV)/tools.stamp
	$(PIP) install --group test
	$(PIP) install --no-deps --group test-alone
	@touch $@

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis

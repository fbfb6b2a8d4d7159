# make demo   installs and runs the quickstart
# make test   installs, checks and runs the tests
VENV ?= .venv
PYTHON ?= python3
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: demo test check bench test-gpu italian clean

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[test]'
	touch $@

demo: $(READY)
	PATH="$(CURDIR)/$(BIN):$$PATH" examples/quickstart/run.sh

italian: $(READY)
	PATH="$(CURDIR)/$(BIN):$$PATH" examples/italian/run.sh

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/mypy

test: check
	$(BIN)/pytest --durations 5

bench: $(READY)
	$(BIN)/pytest tests/benchmarks -s --benchmark-enable --benchmark-columns=min,median,max,rounds

test-gpu: $(READY)
	$(BIN)/pytest -m gpu

clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache

# make demo   installs, without the packages of the tests, and runs the quickstart
# make test   installs, checks and runs the quick tests
# make test-all   runs the slow ones and those of the benchmarks' code, too
# make dist   builds a wheel and a source archive in dist
# make bench  measures against other programs and prints docs/performance.md's table; bench-gpu on a GPU
# make gpu-check   on a GPU: tests and benchmarks in 20 minutes at most, offline; out/gpu-check.md;
#                  first the same code runs on the CPU (1 to 2 minutes); PARTS='tests busy' runs only these parts
# make man    writes man pages of all commands and topics to man; installing puts them into the environment
# make docs   builds the site of README and docs/ in build/site; a broken link fails
# make fuzz   reads FUZZ=10000 damaged files of all kinds, and prints what became of them
# make kill   ends commands by KILLS=100 signals at random moments
# make long   kills a run of STEPS=20000 steps 50 times, and compares it with one that never was
VENV ?= .venv
PYTHON ?= python3
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
READY := $(VENV)/.ready

BENCHMARK := -s --benchmark-enable --benchmark-columns=min,median,max,rounds

.PHONY: demo test test-all check docs man dist bench bench-gpu test-gpu gpu-check italian fuzz kill long clean

$(READY): EXTRAS := [test]
$(INSTALLED) $(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.$(EXTRAS)'
	$(BIN)/python docs/man_pages.py man
	mkdir -p $(VENV)/share/man/man1 $(VENV)/share/man/man7
	cp man/*.1 $(VENV)/share/man/man1
	cp man/*.7 $(VENV)/share/man/man7
	touch $(INSTALLED) $@

demo: $(INSTALLED)
	PATH="$(CURDIR)/$(BIN):$$PATH" examples/quickstart/run.sh

italian: $(READY)
	PATH="$(CURDIR)/$(BIN):$$PATH" examples/italian/run.sh

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/pytest -q tests/test_prose.py tests/test_size.py

# Tiny models lose more to threads than they win; a process a core does the work. A test that hangs
# fails alone.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/pytest --numprocesses auto --durations 5 --timeout 400

test: check
	$(PYTEST) -m "not slow" --ignore tests/benchmarks

test-all: check
	$(PYTEST)

dist: $(READY)
	rm -rf dist build man
	$(BIN)/python docs/man_pages.py man
	$(BIN)/python -m build --no-isolation

man: $(READY)
	$(BIN)/python docs/man_pages.py man

docs: $(READY)
	$(BIN)/python docs/build_site.py build

FUZZ ?= 10000
fuzz: $(READY)
	BMTOOLS_FUZZ=$(FUZZ) OMP_NUM_THREADS=1 $(BIN)/pytest tests/robustness/test_fuzz.py

KILLS ?= 100
kill: $(READY)
	BMTOOLS_KILLS=$(KILLS) OMP_NUM_THREADS=1 $(BIN)/pytest -s tests/robustness/test_kill.py

STEPS ?= 20000
long: $(READY)
	BMTOOLS_STEPS=$(STEPS) OMP_NUM_THREADS=1 $(BIN)/pytest -s tests/robustness/test_long_run.py

bench: $(READY)
	mkdir -p out
	$(BIN)/pytest tests/benchmarks $(BENCHMARK) --benchmark-json=out/bench.json
	$(BIN)/python tests/benchmarks/report.py out/bench.json

bench-gpu: $(READY)
	mkdir -p out
	$(BIN)/pytest tests/benchmarks -m gpu $(BENCHMARK) --benchmark-json=out/bench-gpu.json
	$(BIN)/python tests/benchmarks/report.py out/bench-gpu.json

test-gpu: $(READY)
	$(BIN)/pytest -m gpu

# Takes the software that is there, in the environment above or around it: nothing is installed.
# First, unless PARTS chooses parts, the check itself is tested on the CPU, so that no fault in it costs time of the GPU.
gpu-check: export PYTHONPATH := $(CURDIR)$(if $(PYTHONPATH),:$(PYTHONPATH))
gpu-check: PROGRAM := $(or $(wildcard $(BIN)/python),$(PYTHON))
gpu-check:
	$(if $(PARTS),,if $(PROGRAM) -c "import pytest" 2> /dev/null; then CUDA_VISIBLE_DEVICES= \
		$(PROGRAM) -m pytest -q -x -p no:cacheprovider tests/benchmarks/test_gpu_check.py; fi)
	$(PROGRAM) tests/benchmarks/gpu_check.py out $(PARTS)

clean:
	rm -rf $(VENV) build dist man *.egg-info .mypy_cache .pytest_cache .ruff_cache

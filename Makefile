# Everything a fresh clone needs: `make demo` shows it at work, `make test` tests it. Each sets up .venv by itself.
PYTHON ?= python3
BIN := .venv/bin
SETUP := .venv/.installed
DOCS := .venv/.docs-installed

.PHONY: help demo test torture faults fuzz lint types docs-check site docs wheel dist bench clean

help:  ## Show this list
	@grep -E '^[a-z-]+:.*##' Makefile | sed 's/:.*## /\t/' | expand -t 14

# One call of pip, with every version pinned, so that no package can pull in a second torch.
INSTALL := $(BIN)/python -m pip install --quiet $(PIP_OPTIONS) -c constraints.txt
# A pip of today first: the one that comes with Python 3.11 takes much longer to find 200 packages.
VENV = $(PYTHON) -m venv .venv && $(INSTALL) --upgrade pip

$(SETUP): pyproject.toml constraints.txt
	$(VENV)
	$(INSTALL) -e '.[dev]'
	@touch $(SETUP)

demo: $(SETUP)  ## Encode a small graph and watch noise turn into eigenvectors
	$(BIN)/rfp demo

# TESTS names files or folders; without it all of tests/ is run.
test: $(SETUP)  ## Run the tests, the examples of docstrings among them
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder $(TESTS)

torture: $(SETUP)  ## Some 10,000 small problems that are hard on orthonormalisation, in every backend of a CPU (minutes)
	RFP_TORTURE=3500 OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 tests/backends/test_small_problems.py

faults: $(SETUP)  ## Workers and the scheduler of a partitioned encoding killed in every phase (minutes)
	RFP_FAULTS=1 OMP_NUM_THREADS=1 $(BIN)/python -m pytest tests/partitioned/test_faults.py

fuzz: $(SETUP)  ## 10,000 damaged files through the command; those that fail are kept (minutes)
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.fuzz --count 10000 --keep fuzz-failures

lint: $(SETUP)  ## ruff, lint and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(SETUP)  ## Strict type check of src/
	$(BIN)/mypy

docs-check: $(SETUP)  ## Run every code block of the README and of docs/, and the examples
	$(BIN)/python -m tests.run_documents

$(DOCS): pyproject.toml constraints.txt
	$(VENV)
	$(INSTALL) -e '.[dev,docs]'
	@touch $(SETUP) $(DOCS)

site: $(DOCS)
	OMP_NUM_THREADS=1 $(BIN)/python -m sphinx -j 2 -W --keep-going -q -b html docs docs/_build/html

docs: site  ## Build the site in docs/_build/html, run its notebooks, follow its links, try its search
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -p no:cacheprovider tests/check_site.py

wheel: $(DOCS)
	rm -rf dist
	$(BIN)/python -m build --no-isolation
	$(BIN)/python -m twine check --strict dist/*

dist: wheel  ## Build wheel and sdist, check them, install the wheel and try it
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 -p no:cacheprovider tests/check_wheel.py

bench: $(SETUP)  ## Measure on this machine (minutes); writes bench-results/
	$(INSTALL) -e '.[dev,bench]'
	$(BIN)/rfp bench

clean:  ## Remove .venv and caches
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis dist docs/_build docs/_generated

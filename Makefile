# Everything a fresh clone needs: `make demo` shows it at work, `make test` tests it. Each sets up .venv by itself.
PYTHON ?= python3
BIN := .venv/bin
SETUP := .venv/.installed
DOCS := .venv/.docs-installed

.PHONY: help demo test torture faults fuzz lint types docs-quick docs-check docs dist bench clean

help:  ## Show this list
	@grep -E '^[a-z-]+:.*##' Makefile | sed 's/:.*## /\t/' | expand -t 14

# torch goes in first and pinned, so that no other package can pull in a second one.
$(SETUP): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade-strategy only-if-needed -c constraints.txt torch
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[dev]'
	@touch $(SETUP)

demo: $(SETUP)  ## Encode a small graph and watch noise turn into eigenvectors
	$(BIN)/rfp demo

test: $(SETUP)  ## Run the tests
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadfile

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

docs-quick: $(SETUP)  ## Doctests, and the code blocks of the README and the first pages
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --doctest-modules src/rfp -p no:cacheprovider
	$(BIN)/python tests/run_documents.py README.md $(addprefix docs/,start/index.md guides/pyg.md guides/models.md guides/data.md guides/reading.md concepts/adding.md)

docs-check: $(SETUP)  ## Doctests, the README's code blocks and the examples
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --doctest-modules src/rfp -p no:cacheprovider
	$(BIN)/python tests/run_documents.py

$(DOCS): $(SETUP)
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[docs]'
	@touch $(DOCS)

docs: $(DOCS)  ## Build the site in docs/_build/html, run its notebooks, follow its links, try its search
	OMP_NUM_THREADS=1 $(BIN)/python -m sphinx -j 2 -W --keep-going -q -b html docs docs/_build/html
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -p no:cacheprovider tests/check_site.py

dist: $(DOCS)  ## Build wheel and sdist, check them, install the wheel and try it
	rm -rf dist
	$(BIN)/python -m build --no-isolation
	$(BIN)/python -m twine check --strict dist/*
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 -p no:cacheprovider tests/check_wheel.py

bench: $(SETUP)  ## Measure on this machine (minutes); writes benchmarks/results/
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[bench]'
	$(BIN)/rfp bench

clean:  ## Remove .venv and caches
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis dist docs/_build docs/_generated

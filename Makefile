# make run    set up and watch two islands of devices learn (the README's first command)
# make test   set up and run the tests; make test-slow runs the campaigns: kills, damage, fuzzed input
# make check  formatting, lint, types, and that imports point one way
# make bench  device-steps per second beside a plain PyTorch loop, and what methods cost; beside kept figures:
#             make bench COMPARE=benchmarks/results/two-cores.json
# make docs   the generated pages: docs/experiment.md, docs/reference.md, docs/reproduction/,
#             docs/past-the-paper.md, docs/tell-the-authors.md, the figures of docs/speed.md; what the notebooks show
# make site   the pages as a site that can be searched: build/site
# make wheel  build the wheel, install it into a clean environment, try it; its size and how fast it starts
# make lock   requirements.lock: what constraints.txt pins, with hashes (docs/trust.md)
# make peers  the same job in Flower, pfl, fluke and FedJAX, each in its own environment

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
DEVELOPING := $(VENV)/.developing

# Tests start many processes; without bytecode each would compile all sources anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: run test test-slow check bench docs site wheel lock peers clean

run: $(INSTALLED)
	$(BIN)/skerry run

test: $(DEVELOPING)
	$(BIN)/pytest -n 2 --dist worksteal

test-slow: $(DEVELOPING)
	$(BIN)/pytest -n 2 --dist worksteal -m slow

check: $(DEVELOPING)
	$(BIN)/ruff format --check src tests benchmarks studies docs/*.py
	$(BIN)/ruff check src tests benchmarks studies docs/*.py
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

bench: $(INSTALLED)
	$(BIN)/python benchmarks/cpu.py $(if $(COMPARE),--compare $(COMPARE))
	$(BIN)/python benchmarks/methods_cost.py

docs: $(INSTALLED)
	$(BIN)/python docs/generate.py
	$(BIN)/python docs/notebooks.py
	$(BIN)/python studies/reproduction/page.py
	$(BIN)/python studies/past_the_paper/page.py
	$(BIN)/python studies/selection/page.py
	$(BIN)/python studies/advice/page.py
	$(BIN)/python studies/methods/page.py
	$(BIN)/python studies/clock/page.py
	$(BIN)/python benchmarks/render.py

site: $(INSTALLED)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[site]'
	$(BIN)/python docs/site.py

wheel: $(DEVELOPING)
	$(BIN)/python .ci/wheel.py

lock: $(INSTALLED)
	$(BIN)/python .ci/lock.py

peers: $(INSTALLED)
	$(BIN)/python benchmarks/peers/run.py

clean:
	rm -rf $(VENV) build src/*.egg-info

$(INSTALLED): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	-$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade pip # without a network, the old one does
	$(BIN)/python .ci/torch_build.py # on Linux without a GPU the CPU build, if it can be had
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable .
	touch $@

$(DEVELOPING): $(INSTALLED)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

# Every target works on a fresh clone with nothing but Python 3.11 and make.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: setup test test-random test-slow test-gpu bench-gpu lint format reproduce bench docs docs-serve wheel lock clean
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check
setup: .venv/ready

.venv/ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(INSTALL) -c constraints.txt -e ".[dev]"
	$(BIN)/python -m prudent compile
	@touch $@

.venv/peers: .venv/ready
	$(INSTALL) -c constraints.txt -e ".[dev,bench]"
	-$(INSTALL) --no-deps orbax mdpax==0.2.2
	-$(INSTALL) --no-deps --ignore-requires-python obp==0.5.5  # it declares Python below 3.10, and runs on later ones
	@touch $@

# One process compiles and caches the kernels first; then two test workers share them.
test: setup
	$(BIN)/python -m prudent compile
	$(BIN)/python -m pytest -n 2 -m "not slow and not gpu" --durations=30

# The same tests with new seeds, which are printed where a test fails.
test-random: setup
	$(BIN)/python -m prudent compile
	PRUDENT_TEST_SEED=random $(BIN)/python -m pytest -n 2 -m "not slow and not gpu"

test-slow: setup
	$(BIN)/python -m pytest -m slow

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -q -n 0 tests/site/test_docstrings.py tests/site/test_errors.py tests/site/test_house.py

format: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Every experiment of the paper at a quick scale; ends with where the report is.
OUT ?= reproduction
reproduce: setup
	$(BIN)/prudent reproduce --scale quick --out $(OUT)

# The libraries we measure ourselves against are installed only for this.
bench: .venv/peers
	$(BIN)/python -m benchmarks

# The site, its gallery executed, into build/site; any warning is an error.
.venv/docs: .venv/ready
	$(INSTALL) -c constraints.txt -e ".[dev,docs]"
	@touch $@

docs: .venv/docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

docs-serve: .venv/docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs serve

# On a machine with an NVIDIA GPU.
.venv/gpu: .venv/ready
	$(INSTALL) -c constraints.txt -e ".[dev,gpu]"
	@touch $@

test-gpu: .venv/gpu
	$(BIN)/python -m pytest -m gpu tests/planning/test_gpu.py

bench-gpu: .venv/gpu
	$(BIN)/python -m benchmarks gpu

# A wheel for this platform and this Python whose kernels are compiled, and the wheel for every other, into dist/.
wheel: setup
	$(BIN)/python -m build --quiet --wheel
	$(BIN)/python release/kernels.py build/kernels
	PRUDENT_KERNELS=$(CURDIR)/build/kernels $(BIN)/python -m build --quiet --wheel

# Refresh the pinned versions after a change of dependencies.
lock:
	rm -rf .venv && $(PYTHON) -m venv .venv
	$(INSTALL) -e ".[dev,docs,bench]"
	$(BIN)/python -m pip freeze --exclude-editable > constraints.txt
	@touch .venv/ready .venv/docs .venv/peers

clean:
	rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

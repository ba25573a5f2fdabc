# The two commands of the README are `make demo` and `make test`; each makes the environment that it needs first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
BENCH_FLAGS ?=
SOAK_SEED ?= 2026
SOAK_FLAGS ?= --minutes 10

.DEFAULT_GOAL := help
.PHONY: help demo test test-fast soak check format bench proto clean system

help: ## List the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 18

demo: $(VENV)/made ## Train on real data, kill a rank and an agent, watch the job recover
	$(BIN)/python tools/demo.py

test: $(VENV)/made system ## Install what the tests need, and run them all
	@tools/run-tests.sh $(BIN)/python $(PYTEST_FLAGS)

test-fast: $(VENV)/made ## The tests that are over in a moment and need no torch: under 2 minutes
	$(BIN)/python -m pytest -n 2 -m "not slow and not torch" tests/unit tests/etcd $(PYTEST_FLAGS)

soak: $(VENV)/made system ## Train for ten minutes while something fails every twenty seconds; needs root
	$(BIN)/python bench/soak.py --seed $(SOAK_SEED) $(SOAK_FLAGS)

check: $(VENV)/made $(VENV)-proto/made ## Lint, format, types, layers, and that generated code and pages are current
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	$(BIN)/python tools/reference.py --check
	PYTHON=$(CURDIR)/$(VENV)-proto/bin/python proto/generate.sh --check

format: $(VENV)/made ## Let ruff put the code in order
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/made ## Measure against torchrun, in the same run; BENCH_FLAGS=--quick for a short look
	$(BIN)/python bench/launch.py --json bench/launch.json $(BENCH_FLAGS)
	$(BIN)/python bench/rendezvous.py --json bench/rendezvous.json $(BENCH_FLAGS)
	$(BIN)/python bench/controller.py --json bench/controller.json $(BENCH_FLAGS)
	$(BIN)/python bench/web.py --json bench/web.json $(BENCH_FLAGS)
	$(BIN)/python bench/abort.py --json bench/abort.json $(BENCH_FLAGS)
	$(BIN)/python bench/overhead.py --json bench/overhead.json $(BENCH_FLAGS)
	$(BIN)/python bench/start_check.py --json bench/start_check.json $(BENCH_FLAGS)
	$(BIN)/python bench/checkpoint.py --json bench/checkpoint.json $(BENCH_FLAGS)
	$(BIN)/python bench/topology.py --json bench/topology.json $(BENCH_FLAGS)
	$(BIN)/python bench/page.py --json bench/page.json $(BENCH_FLAGS)
	$(BIN)/python bench/soak.py --json bench/soak.json $(BENCH_FLAGS)

proto: $(VENV)-proto/made ## Generate elaunch/proto/ anew from proto/
	PYTHON=$(CURDIR)/$(VENV)-proto/bin/python proto/generate.sh

system: # packages of the system, where we may install them
	@tools/system-packages.sh

clean: ## Remove the environments and all caches
	rm -rf $(VENV) $(VENV)-proto build *.egg-info .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis runs

$(VENV)/made: pyproject.toml constraints.txt tools/make-venv.sh
	@tools/make-venv.sh $(PYTHON) $(VENV) -c constraints.txt -e '.[dev]'

# The generator wants a protobuf older than the one that the code it makes runs with: it has an environment of its own.
$(VENV)-proto/made: tools/constraints-proto.txt tools/make-venv.sh
	@tools/make-venv.sh $(PYTHON) $(VENV)-proto -c tools/constraints-proto.txt grpcio-tools

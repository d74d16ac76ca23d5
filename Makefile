# Two commands do everything on a fresh machine: `make demo` runs the main job, `make test` passes the tests.
# Each makes .venv by itself and installs exactly what the hash-pinned files in requirements/ name.
PYTHON ?= python3
BIN := .venv/bin
UV := $(BIN)/uv
INSTALL := $(UV) pip install --quiet --python $(BIN)/python
SELF := $(INSTALL) --no-deps --no-build-isolation --editable .

.PHONY: demo test setup check bench lock clean
demo: .venv/.demo
	$(BIN)/headrace demo $(ARGS)

# Most tests wait, for daemons above all, so two run at a time; those that watch how busy the CPUs
# are, or make beds, which others would disturb, run after them one by one.
ALONE := $(addprefix tests/,testbed agent/test_agent_idle.py integration/test_integration_busy_storage.py)
test: .venv/.dev
ifdef ARGS
	$(BIN)/python -m pytest $(ARGS)
else
	$(BIN)/python -m pytest -n 2 --dist loadfile $(addprefix --ignore=,$(ALONE))
	$(BIN)/python -m pytest $(ALONE)
endif

setup: .venv/.dev

check: .venv/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# ARGS="--quick" is short; ARGS="--json DIR" leaves DIR/NAME.json of each.
bench: .venv/.dev
	$(BIN)/python -m bench.loader $(ARGS)
	$(BIN)/python -m bench.recorder $(ARGS)
	$(BIN)/python -m bench.stragglers $(ARGS)
	$(BIN)/python -m bench.wire $(ARGS)
	$(BIN)/python -m bench.tracing $(ARGS)
	$(BIN)/python -m bench.offload $(ARGS)
	$(BIN)/python -m bench.control $(ARGS)
	$(BIN)/python -m bench.reservation $(ARGS)
	$(BIN)/python -m bench.diagnosis $(ARGS)
	$(BIN)/python -m bench.startup $(ARGS)
	$(BIN)/python -m bench.evaluation $(ARGS)
	$(BIN)/python -m bench.analyse $(ARGS)
	$(BIN)/python -m bench.peers $(ARGS)

.venv/.uv: requirements/bootstrap.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --require-hashes -r requirements/bootstrap.txt
	@touch $@

.venv/.demo: .venv/.uv requirements/demo.txt pyproject.toml
	@test -e .venv/.dev || $(INSTALL) --require-hashes -r requirements/demo.txt
	@$(SELF)
	@touch $@

.venv/.dev: .venv/.uv requirements/dev.txt requirements/writers.txt pyproject.toml
	$(INSTALL) --require-hashes -r requirements/dev.txt
	$(INSTALL) --require-hashes --no-deps -r requirements/writers.txt
	@$(SELF)
	@touch $@

# Renew the pins. No index address is written, so any index that serves the same files will do.
COMPILE := $(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate
lock: .venv/.uv
	echo 'uv>=0.9' | $(COMPILE) - -o requirements/bootstrap.txt
	$(COMPILE) pyproject.toml requirements/build.in --extra demo -o requirements/demo.txt
	$(COMPILE) pyproject.toml --extra dev -o requirements/dev.txt
	$(COMPILE) requirements/writers.in --no-deps -o requirements/writers.txt
	$(COMPILE) requirements/peers-tensorflow.in -c requirements/dev.txt -o requirements/peers-tensorflow.txt
	$(COMPILE) requirements/peers-ray.in -c requirements/dev.txt -o requirements/peers-ray.txt

clean:
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache

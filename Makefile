# make demo   see it work: a small fleet on this machine, no root needed
# make test   all that any machine and any account can try; names at its end what could not be
# make test-hosts   the tests on real Debian hosts, raised on this machine: needs root and nspawn
# make check  the quick part: static checks and unit tests
# make slow   what the tests try already, in more places: a kill at every stop of every command
# make soak   the loop alone with a fleet that breaks, for GPUAAS_SOAK_SECONDS=900, in the lab
# make lab    three real Debian hosts on this machine, and a fleet for them; make lab-down ends it
# make bench  measure; BENCH_SCALE=0.01 for a short look
# make fuzz   look for inputs that are answered wrongly, for FUZZ_SECONDS=600 a target
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
BIN := .venv/bin
HOST_CODE := playbooks/module_utils
# Tests start hundreds of programs: whoever keeps no compiled code compiles all of it each time.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help demo test check static unit walk slow soak wheel test-hosts lab lab-down bench fuzz lock clean

help:
	@sed -n 's/^# \(make .*\)/  \1/p' Makefile

# An environment is of one Python; `make PYTHON=...` with another one makes it anew.
ifdef PYTHON
ifneq ($(shell test ! -x .venv/bin/python || .venv/bin/python -V),$(shell $(PYTHON) -V))
.PHONY: .venv/.ready-run .venv/.ready-dev .venv/.ready-fuzz
endif
endif

.venv/.ready-run .venv/.ready-dev .venv/.ready-fuzz: .venv/.ready-%: requirements.lock pyproject.toml .ci/prepare
	@.ci/prepare $*

demo: .venv/.ready-run
	@$(BIN)/python tests/demo.py

test: check walk wheel
	@$(BIN)/python -m tests.untried unit walk wheel

check: static unit

# Code that runs on hosts is held to Python 3.9: its syntax by ruff, its types by mypy at the
# oldest version mypy knows, its library calls by tests/test_architecture.py.
static: .venv/.ready-dev
	$(BIN)/ruff check .
	$(BIN)/ruff check --target-version py39 --extend-select FA102 playbooks
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/mypy --python-version 3.10 $(HOST_CODE)
	$(BIN)/mypy playbooks/action_plugins
	PATH="$$PWD/$(BIN):$$PATH" $(BIN)/ansible-lint playbooks

# A worker more than processors: some wait for locks and for what does not answer.
unit: .venv/.ready-dev
	GPUAAS_PART=unit $(BIN)/pytest -n $$(($$(nproc) + 1)) --dist loadfile -m "not walk and not wheel and not lab and not slow"

# These wait too, for guards and for hosts that do not answer.
walk: .venv/.ready-dev
	GPUAAS_PART=walk $(BIN)/pytest -n 4 --dist worksteal -m "walk and not slow"

# Where seconds count, nothing runs beside.
slow: .venv/.ready-dev
	$(BIN)/pytest -n 2 --dist worksteal -m "slow and not alone"
	$(BIN)/pytest -m "slow and alone"

soak: .venv/.ready-dev
	GPUAAS_LAB=required $(BIN)/pytest -s tests/lab/test_soak.py

wheel: .venv/.ready-dev
	GPUAAS_PART=wheel $(BIN)/pytest -m wheel

# Hosts are waited for more than they work, so there are more workers than processors. Where it is
# run on purpose, a lab that cannot be had is a failure and no reason to skip.
test-hosts: .venv/.ready-dev
	@$(BIN)/python -m tests.lab able
	GPUAAS_LAB=required $(BIN)/pytest -n 4 --dist loadfile -m "lab and not slow"

lab: .venv/.ready-dev
	@$(BIN)/python -m tests.lab open

lab-down:
	@$(BIN)/python -m tests.lab close

bench: .venv/.ready-dev
	@$(BIN)/python -m tests.bench $(BENCH)

fuzz: .venv/.ready-dev .venv/.ready-fuzz
	@$(BIN)/python -m tests.fuzz $(FUZZ)

lock:
	@.ci/prepare dev
	@(sed -n '/^#/p' requirements.lock; $(BIN)/pip freeze --exclude-editable --exclude atheris) > .venv/lock
	@mv .venv/lock requirements.lock

clean:
	rm -rf .venv build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

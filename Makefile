# so101walk: everything a newcomer or CI runs. `make` lists the targets.
SHELL := /bin/bash
VENV ?= .venv
BIN := $(VENV)/bin
DEMO_NOTE := made by make demo

.PHONY: help demo test browser lint types build clean
help:
	@echo "make demo    three episodes in simulation, checked, with a picture (makes $(VENV) first)"
	@echo "make test    the whole test suite"
	@echo "make lint    ruff;  make types    mypy;  make build    the wheel"

# Python 3.12 or newer: uv if there is one (it can bring a Python), else the first fitting interpreter.
# The marker is written last, so a half-made environment is made again.
$(VENV): $(VENV)/.complete
$(VENV)/.complete: pyproject.toml requirements.lock
	@set -e; \
	fits() { command -v "$$1" >/dev/null 2>&1 && "$$1" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 12))' >/dev/null 2>&1; }; \
	python=; for p in python3 python3.12 python3.13; do if fits $$p; then python=$$p; break; fi; done; \
	$(BIN)/python -c '' 2>/dev/null || rm -rf $(VENV); \
	if command -v uv >/dev/null 2>&1; then [ -d $(VENV) ] || uv venv -q --python "$${python:-3.12}" $(VENV); uv=uv; \
	elif [ -n "$$python" ]; then [ -d $(VENV) ] || $$python -m venv $(VENV); $(BIN)/python -m pip install -q uv && uv=$(BIN)/uv || uv=; \
	else echo "so101walk needs Python 3.12 or newer with venv (or uv) on the PATH: install python3.12 and python3.12-venv, or uv" >&2; exit 1; fi; \
	echo "installing into $(VENV) (5 GB on Linux x86-64, half a minute with a warm cache)"; \
	if [ -n "$$uv" ]; then \
	  $$uv pip install -q --compile-bytecode --python $(BIN)/python -r requirements.lock && $$uv pip install -q --python $(BIN)/python --no-deps -e .; \
	else \
	  $(BIN)/python -m pip install -q -r requirements.lock && $(BIN)/python -m pip install -q --no-deps -e .; \
	fi; \
	touch $@

# Replaces only what an earlier demo made: the note that `collect` keeps in the dataset says so.
demo: $(VENV)/.complete
	@set -e; \
	for f in datasets/demo/meta/so101walk.json datasets/demo.staging/session.json; do \
	  d=$$(echo $$f | cut -d/ -f1-2); \
	  if [ -e $$d ]; then \
	    if grep -qs '"$(DEMO_NOTE)"' $$f; then rm -rf $$d; \
	    else echo "$$d was not made by an earlier demo; move it away, then run make demo again" >&2; exit 1; fi; \
	  fi; \
	done
	$(BIN)/so101walk collect --episodes 3 --rho 0.9 --seed 0 --out datasets/demo --note "$(DEMO_NOTE)"
	$(BIN)/so101walk check datasets/demo
	$(BIN)/so101walk picture datasets/demo

test: $(VENV)/.complete browser
	$(BIN)/python -m pytest -q

# One test opens a report in Chromium: installed where that can be done, else the test says what is missing.
browser:
	@for b in chromium chromium-browser google-chrome; do command -v $$b >/dev/null 2>&1 && exit 0; done; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then \
	  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium >/dev/null; \
	else echo "Chromium is missing; one test needs it (Debian: apt-get install chromium)" >&2; fi

lint: $(VENV)/.complete
	$(BIN)/ruff check . && $(BIN)/ruff format --check .

types: $(VENV)/.complete
	$(BIN)/mypy

build: $(VENV)/.complete
	$(BIN)/python -m build --wheel --outdir dist

clean:
	rm -rf $(VENV) dist build

# make demo: install and remove the clouds from a scene.   make test: install, check and test.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALL := PIP_CONSTRAINT=$(CURDIR)/constraints.txt $(BIN)/python -m pip install --quiet --quiet --disable-pip-version-check

.DEFAULT_GOAL := help
.PHONY: help demo test check bench docs clean

help:
	@echo "make demo    install, remove the clouds from the example scene, score it (half a minute once installed)"
	@echo "make test    install, check and run the tests"
	@echo "make check   ruff, mypy, import-linter and deptry"
	@echo "make bench   accuracy of the method, speed against the published way, speed of loading"
	@echo "make docs    build the documentation into site/"
	@echo "make clean   remove what the above made"

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

# A stamp for each set of extras: reinstalled only when what is declared has changed.
$(VENV)/installed-%: pyproject.toml constraints.txt | $(BIN)/python
	@echo "installing emrdm[$*] into $(VENV) ..."
	@$(INSTALL) --editable '.[$*]'
	@touch $@

demo: $(VENV)/installed-pictures,geo
	$(BIN)/python examples/quickstart.py --out demo

test: check
	$(BIN)/pytest -n auto

check: $(VENV)/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/deptry src

bench: $(VENV)/installed-dev
	$(BIN)/python benchmarks/accuracy.py
	$(BIN)/emrdm bench
	$(BIN)/python benchmarks/loading.py

docs: $(VENV)/installed-docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

clean:
	rm -rf $(VENV) demo tiny site build dist src/*.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis

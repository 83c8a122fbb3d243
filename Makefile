# The short commands. For single steps see CONTRIBUTING.md.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.NOTPARALLEL:
.DEFAULT_GOAL := help

JOBS ?= $(shell nproc)
PREFIX ?= /usr/local
SPRAT := build/release/bin/sprat
VENV := build/venv
MODEL = $(shell python3 tools/fetch_model.py --where all-MiniLM-L6-v2)

# One cache for the same file in every build directory.
export CCACHE_NOHASHDIR := true

# nvcc where CMake will look for it; empty if there is none.
NVCC := $(or $(CUDACXX),$(shell PATH="$$PATH:$(CUDA_HOME)/bin:/usr/local/cuda/bin" command -v nvcc))
# What the whole suite runs in: `cuda` is `dev` and the CUDA parts.
MAIN := $(if $(NVCC),cuda,dev)
# Models that only tests use lie apart from the user's own.
TEST_MODELS := $(HOME)/.cache/sprat/test-models
TEST_OPTIONS = -DSPRAT_TEST_MODEL=$(MODEL) -DSPRAT_TEST_MODELS=$(TEST_MODELS) \
  -DSPRAT_TEST_PYTHON=$(CURDIR)/$(VENV)/bin/python

define step
@printf '\n== %s  (%(%H:%M:%S)T)\n' '$(1)' -1
endef

.PHONY: help quickstart build test bench install format clean
help:
	@echo 'make quickstart  install what is needed, build, fetch a model, embed real sentences'
	@echo 'make build       build/release/bin/sprat'
	@echo 'make test        everything that is checked before a change lands'
	@echo 'make bench       compare with other engines on this machine'
	@echo 'make install     build and install below PREFIX=$(PREFIX)'
	@echo 'make format      lay out the source files'
	@echo 'make clean       remove build/; fetched models stay'

quickstart:
	@tools/install_packages.sh build
	@$(MAKE) --no-print-directory build
	@python3 tools/fetch_model.py all-MiniLM-L6-v2
	$(call step,How alike are these sentences? (cosine of their vectors))
	@$(SPRAT) similarity -m all-MiniLM-L6-v2 \
	  'The cat sleeps on the warm windowsill.' \
	  'A kitten is napping in the sun.' \
	  'Interest rates were raised by a quarter point.' \
	  'The central bank made borrowing more expensive.' \
	  'How do I reset my password?'
	$(call step,sprat search "run the tests" README.md)
	@$(SPRAT) search -m all-MiniLM-L6-v2 'run the tests' README.md

build:
	@cmake --preset release -DSPRAT_BUILD_TESTS=OFF -DSPRAT_BUILD_BENCHMARKS=OFF \
	  --log-level=WARNING >/dev/null
	@cmake --build --preset release -j $(JOBS) --target sprat

install: build
	@cmake --build --preset release -j $(JOBS)
	@cmake --install build/release --prefix $(PREFIX)

format:
	@python3 tools/check_format.py --fix

clean:
	rm -rf build

# The parts of `make test`, each usable alone. The last is the largest and ends with its summary.
.PHONY: test-tools test-nvcc test-build test-tidy test-fuzz test-asan test-tsan test-kernels test-main
test: test-tools test-nvcc test-build test-tidy test-fuzz test-asan test-tsan test-kernels test-main

# Models and Python packages, so that no test needs the network.
test-tools: $(VENV)/.complete
	@python3 tools/fetch_model.py all-MiniLM-L6-v2
	@SPRAT_MODELS=$(TEST_MODELS) python3 tools/fetch_model.py \
	  paraphrase-MiniLM-L3-v2-onnx tokenlearn-static

$(VENV)/.complete: tests/requirements.txt
	$(call step,Python packages for the tests)
	@rm -rf $(VENV)
	@python3 -m venv $(VENV)
	@$(VENV)/bin/pip install --quiet -r $<
	@touch $@

test-nvcc:
ifeq ($(NVCC),)
	@echo 'No nvcc: the CUDA parts are left out.'
	@[[ "$${CI:-}" != true ]] || { echo 'CI=true wants them: install the CUDA toolkit, 12.8 or later.' >&2; exit 1; }
endif

test-build:
	$(call step,Build with warnings as errors ($(MAIN)))
	@cmake --preset $(MAIN) $(TEST_OPTIONS) --log-level=WARNING >/dev/null
	@cmake --build --preset $(MAIN) -j $(JOBS) -- --quiet

test-tidy: test-build
	$(call step,clang-tidy)
	@python3 tools/tidy.py build/$(MAIN) --jobs $(JOBS)

# Bodies of requests, for a short time: what hours of it found stays in the unit tests.
test-fuzz:
	$(call step,Fuzzing bodies of requests)
	@cmake --preset fuzz --log-level=WARNING >/dev/null
	@cmake --build --preset fuzz -j $(JOBS) --target request_fuzz -- --quiet
	@build/fuzz/bin/request_fuzz -max_total_time=20 -print_final_stats=1 2>&1 | tail -n 12

test-asan:
	$(call step,Address and undefined-behaviour sanitizers)
	@cmake --preset asan $(TEST_OPTIONS) -DSPRAT_BUILD_BENCHMARKS=OFF --log-level=WARNING >/dev/null
	@cmake --build --preset asan -j $(JOBS) -- --quiet
	@ctest --preset asan -j $(JOBS) -L unit -E '^(checks|tools)\.|^tokenizer\.reference\.(characters|texts)'

test-tsan:
	$(call step,Thread sanitizer)
	@cmake --preset tsan $(TEST_OPTIONS) -DSPRAT_BUILD_BENCHMARKS=OFF --log-level=WARNING >/dev/null
	@cmake --build --preset tsan -j $(JOBS) --target thread_tests -- --quiet
	@ctest --preset tsan -j $(JOBS) -L threads

# Each kernel table that this machine can run, but the one that the other runs choose.
test-kernels: test-build
	@for table in $$(build/$(MAIN)/bin/kernel_tables | tail -n +2); do \
	  printf '\n== SPRAT_FORCE_ISA=%s  (%(%H:%M:%S)T)\n' $$table -1; \
	  SPRAT_FORCE_ISA=$$table ctest --preset $(MAIN) -j $(JOBS) -L kernels; \
	done

test-main: test-build
	$(call step,Everything ($(MAIN)))
	@ctest --preset $(MAIN) -j $(JOBS)

bench: $(VENV)/.complete
	@python3 tools/fetch_model.py all-MiniLM-L6-v2
	@cmake --preset release -DSPRAT_BUILD_TESTS=OFF --log-level=WARNING >/dev/null
	@cmake --build --preset release -j $(JOBS) --target encoder_rounds
	@$(VENV)/bin/python bench/compare_cpu.py

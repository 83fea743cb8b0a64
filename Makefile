# The short way to everything. Each target works alone on a fresh Debian 12 or Ubuntu 24.04.

JOBS ?= $(shell nproc)
export CMAKE_BUILD_PARALLEL_LEVEL ?= $(JOBS)
# Twice as many tests as processors: many wait, for a process that they kill.
export CTEST_PARALLEL_LEVEL ?= $(shell expr 2 '*' $(JOBS))
PROGRAM := build/release/src/cli/deltasane
NVCC := $(or $(CUDACXX),$(shell command -v nvcc),$(wildcard /usr/local/cuda/bin/nvcc))

PREFIX ?= /usr/local

.PHONY: help build install test emulation packaging mutations bench demo sanitize fuzz cuda bare clean packages program
.NOTPARALLEL:

help:
	@echo 'make build     the program, in $(PROGRAM)'
	@echo 'make install   program, libraries, header, manual page and completions, in PREFIX ($(PREFIX))'
	@echo 'make test      build and run the tests; says what was skipped and why'
	@echo 'make emulation the tests of GPU kernels, without a GPU'
	@echo 'make packaging install and take in the project as others do: CMake, pip, a compiler alone'
	@echo 'make mutations plant faults into the code; passes if the tests find all of them'
	@echo 'make bench     build and measure the kernels'
	@echo 'make demo      build and run the demonstration; TOKENS=N: of so many bytes'
	@echo 'make sanitize  all tests with address, undefined-behaviour and thread checking'
	@echo 'make fuzz      a minute of fuzzing for each parser (FUZZ_SECONDS=60), with clang++-16'
	@echo 'make cuda      build with the CUDA backends, where nvcc is installed'
	@echo 'make bare      build and test with a compiler and a folder of headers only'
	@echo 'make clean     remove everything that was made'
	@echo 'JOBS=N limits parallel work (now $(JOBS)). Missing packages are installed with apt-get.'

# $(call make_preset,NAME): configure and build.
make_preset = cmake --preset $(1) --log-level=WARNING && cmake --build --preset $(1)

# $(call test_preset,NAME[,BUILD,REPORT]): run the tests, then say what was skipped, whatever the tests said.
test_preset = ctest --preset $(1); status=$$?; build/$(or $(2),$(1))/test/house/test_report \
  build/$(or $(2),$(1))/$(or $(3),tests).xml test/expected_skips.txt && exit $$status

packages:
	@tools/install_packages

build: packages
	@$(call make_preset,release)

program: packages
	@$(call make_preset,release) --target deltasane

install: build
	@cmake --install build/release --prefix '$(PREFIX)'

test: build
	@$(call test_preset,release)

emulation: build
	@cmake --build --preset release --target emulation_test
	@$(call test_preset,emulation,release,emulation)

packaging: build
	@$(call test_preset,packaging,release,packaging)

mutations: build
	@ctest --preset mutations

bench: program
	@$(PROGRAM) bench kernel

demo: program
	@$(PROGRAM) demo $(if $(TOKENS),--tokens $(TOKENS))

sanitize: packages
	@$(call make_preset,asan)
	@$(call test_preset,asan)
	@$(call make_preset,tsan)
	@$(call test_preset,tsan)

FUZZ_SECONDS ?= 60
export FUZZ_PRESET ?= fuzz
fuzz: packages
	@$(call make_preset,$(FUZZ_PRESET))
	@tools/run_fuzzers $(FUZZ_SECONDS)

cuda: packages
ifeq ($(NVCC),)
	@echo 'make cuda: nvcc was not found, in the PATH or as CUDACXX; nothing was built'
else
	@export CUDACXX='$(NVCC)' && $(call make_preset,cuda)
endif

# A folder of headers that was brought from another machine is used as it is.
build/headers:
	@tools/install_packages
	@mkdir -p build
	@tools/collect_headers $@

bare: build/headers
	@$(call make_preset,bare)
	@$(call test_preset,bare)

clean:
	@rm -rf build

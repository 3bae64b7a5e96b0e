# SPDX-License-Identifier: Apache-2.0
# Targets are thin wrappers around CMake presets. PRESET=dev|release|asan|tsan where applicable.
PRESET ?= release
JOBS ?= $(shell nproc)
BUILD = build/$(PRESET)
# DEPS=build installs only what building the binary needs.
DEPS ?=
# Of `make fuzz`: how long each target runs, and which (all, if empty).
SECONDS ?= 60
T ?=
# Of `make simulate`: FIRST:END. Of `make mutants`: T names some of them.
SEEDS ?= 1:200001
# Of `make responses`, `soak`, `overload` and `seeds`: of one slice the seconds, or seeds; how many now; the goal. Empty: tests/campaign.
SLICE ?=
SLICES ?=
GOAL ?=
# The cross build has packages for another machine than this one.
CROSS = $(filter aarch64,$(PRESET))
DIST = build/dist/dunlin-*-linux-$(if $(CROSS),aarch64,$(shell uname -m)).tar.gz
# What the cross build's packages are installed and run with: roots and images for arm64, under emulation.
EMULATED = $(if $(CROSS),ARCHITECTURE=arm64 SLOWER=10 deploy/arm64_run.sh)
# Code variants of the CPU kernels: all, native (this machine's best, in two thirds of the time), runnable (all that this
# machine's processor runs) or a list. Empty: as the build folder has them, all in a new one; demo, serve and check take native
# in a new one, test takes runnable and dist all in any.
CPU_VARIANTS ?=
# Compute capabilities of the CUDA module: "80;90a" for example, or runnable (90a and those of this machine's GPUs), which
# test takes. Empty: all of them.
CUDA_ARCHITECTURES ?=

.NOTPARALLEL:
.PHONY: help deps toolkit prometheus configure build cuda cuda-module demo serve test check fuzz fuzz-tally simulate simulate-build \
        mutants chaos campaign responses soak overload seeds campaign-table interop interop-full python-client arm-test ui-test fmt \
        fmt-check tidy bench loadtest dist dist-test deb service-test image image-module compose-test charts advisories clean

help:
	@echo "make demo   install missing packages, build, serve models/demo: completions, metrics, a chat, a tool call, JSON"
	@echo "make serve  run the demo server in the foreground"
	@echo "make test   build and run every test (PRESET=asan or tsan for the sanitizers)"
	@echo "make interop  clients of OpenAI's, Anthropic's and Cohere's APIs against the server, 7 minutes; ALLOW_MISSING=1 lets one"
	@echo "            that can't be installed pass, ONLY=\"smg openai\" takes these; make interop-full: guidellm and aiperf too (8 GB in"
	@echo "            build/interop)"
	@echo "make python-client  build the wheel of clients/python and test it in an environment of its own (PyPI the first time)"
	@echo "make arm-test  build for ARM (aarch64) into build/aarch64 and run a choice of the tests under qemu-user (Debian 12); T=served: a part"
	@echo "make ui-test  the status page and playground in headless Chromium, 3 minutes at most (npm for two packages)"
	@echo "make check T=ROOM  build and run the tests of one folder of tests/: T=scheduler, T=server/access"
	@echo "make fuzz   build the fuzz targets and run each for SECONDS=60, or those of T=\"gguf openai\" (tests/fuzz)"
	@echo "make simulate  run seeds of the simulation, SEEDS=1:200001 (tests/simulation); make mutants: the bugs that it has to find"
	@echo "make chaos  faults of a real server under load, a line each (as root; T=\"SIGKILL full\" for some): tests/chaos"
	@echo "make campaign  all of these, short: make fuzz SECONDS=20, simulate, chaos, responses, overload; <= 30 minutes once built"
	@echo "make responses | soak | overload | seeds  go on with a long campaign, in slices that add up (SLICES=1 for one):"
	@echo "            1,000,000 answers compared, 8 hours of load, an hour of overload, 1,000,000 seeds (tests/campaign)"
	@echo "make campaign-table  adds what those have done to the table of tests/campaign; make fuzz-tally: make fuzz, to that of tests/fuzz"
	@echo "make build  build the binary build/$(PRESET)/dunlin"
	@echo "make bench  run the benchmarks that have goals, <= 10 minutes (NAME=x keeps the results)"
	@echo "make loadtest  run short load tests with limits, 3 minutes (deploy/loadtest), and show them in build/loadtest/report.html"
	@echo "make cuda   build the CUDA module build/$(PRESET)/libdunlin_cuda.so, with the nvcc on PATH or a pinned one"
	@echo "make cuda-module  build only that module, into build/cuda-module, without the server's packages"
	@echo "make dist   pack build/dist/dunlin-VERSION-linux-ARCH.tar.gz, which needs only glibc (PRESET=aarch64: the cross build's;"
	@echo "            make dist-test, deb and image take it, too)"
	@echo "make dist-test  test it in a minimal Debian (as root, with debootstrap; SUITE=trixie for another release)"
	@echo "make deb    build/deb/dunlin_VERSION_ARCH.deb out of the dist, installed and removed again in a minimal Debian (as root)"
	@echo "make service-test  test its systemd unit in a container (as root; podman, runc, debootstrap)"
	@echo "make image  build deploy/Dockerfile and test the image read-only and unprivileged (as root; buildah,"
	@echo "            podman, runc, debootstrap); FROM_DIST=1 uses build/dist; TWICE=1 compares two builds; TARGET=cuda for GPUs"
	@echo "make compose-test  run deploy/compose.yaml in a network of its own (as root; as make image, podman-compose, aardvark-dns)"
	@echo "make charts  lint and render the Helm chart, and run the server as its pods would (PyPI, for helm too)"
	@echo "make advisories  RustSec's advisories against the locked crates (builds cargo-audit the first time)"
	@echo "make fmt | fmt-check | tidy | clean"

deps:
	@deploy/bootstrap.sh $(DEPS)
	@$(if $(CROSS),deploy/bootstrap.sh arm64 && deploy/arm64_sysroot.sh)

# Optional test dependencies: with a CUDA toolkit the tests cover the CUDA module, with Prometheus the monitoring.
# Without them, those tests are not built or are skipped.
toolkit:
	@deploy/cuda_toolkit.sh || true

prometheus:
	@deploy/prometheus_tools.sh || true

# CUDA architectures stay what the build folder has unless some are given, or all (ALL_CUDA): else `make demo` after `make test` would have
# the next build of the module compile all six.
configure: deps
	@cmake --preset $(PRESET) $(if $(CUDA_ARCHITECTURES)$(ALL_CUDA),-DDUNLIN_CUDA_ARCHITECTURES="$(CUDA_ARCHITECTURES)") \
	  $(if $(CPU_VARIANTS),-DDUNLIN_CPU_VARIANTS="$(CPU_VARIANTS)") > $(PRESET).configure.log 2>&1 || (cat $(PRESET).configure.log; rm -f $(PRESET).configure.log; exit 1)
	@rm -f $(PRESET).configure.log

demo serve: CPU_VARIANTS := $(or $(CPU_VARIANTS),$(if $(wildcard $(BUILD)/CMakeCache.txt),,native))
test: CPU_VARIANTS := $(or $(CPU_VARIANTS),runnable)
test: CUDA_ARCHITECTURES := $(or $(CUDA_ARCHITECTURES),runnable)
dist: CPU_VARIANTS := $(or $(CPU_VARIANTS),all)

build: configure
	cmake --build --preset $(PRESET) --target dunlin -j $(JOBS)

cuda:
	@deploy/cuda_toolkit.sh
	@$(MAKE) --no-print-directory configure ALL_CUDA=1
	cmake --build --preset $(PRESET) --target dunlin_cuda -j $(JOBS)

# The same module for the server of any build of this tree, with no package but the compiler, CMake and nvcc.
cuda-module:
	@deploy/cuda_toolkit.sh
	cmake -S . -B build/cuda-module -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_FLAGS_RELEASE=-O2 \
	  -DDUNLIN_MODULE_ONLY=ON
	cmake --build build/cuda-module -j $(JOBS)

demo: build
	@deploy/demo.sh $(BUILD)/dunlin configs/demo.json

serve: build
	$(BUILD)/dunlin serve --config configs/demo.json

test: toolkit prometheus configure
	cmake --build --preset $(PRESET) -j $(JOBS)
	@rm -rf $(BUILD)/test-results
	GTEST_OUTPUT=xml:$(abspath $(BUILD))/test-results/ \
	  ctest --preset $(PRESET) -j $(JOBS) --output-junit test-results/ctest.xml

# One room's tests, for the loop of edit and test: `make check T=scheduler`, `make check T=server/access`.
check: deps
	@tests/check_room.sh "$(T)" $(JOBS)

# Preset fuzz: clang with libFuzzer, AddressSanitizer and UndefinedBehaviorSanitizer.
fuzz: PRESET := fuzz
fuzz: DEPS := fuzz
fuzz: configure
	cmake --build --preset fuzz --target $(if $(T),write_corpus $(addprefix fuzz_,$(T)),fuzz) -j $(JOBS)
	@PYTHONDONTWRITEBYTECODE=1 python3 tests/fuzz/run.py build/fuzz --seconds $(SECONDS) $(T)

fuzz-tally:
	@PYTHONDONTWRITEBYTECODE=1 python3 tests/fuzz/tally.py build/fuzz --write

simulate-build: configure
	cmake --build --preset $(PRESET) --target simulate -j $(JOBS)

simulate: simulate-build
	@$(BUILD)/tests/simulate --seeds $(SEEDS)

# Each bug of tests/simulation/mutants.toml in a copy of the tree: half an hour on 2 cores.
mutants: deps
	@PYTHONDONTWRITEBYTECODE=1 python3 tests/simulation/mutants.py build/mutants --jobs $(JOBS) $(T)

# What a fault of the process, the machine or the network does to clients, health and what is left behind.
chaos: build
	@PYTHONDONTWRITEBYTECODE=1 python3 tests/chaos/run.py $(BUILD)/dunlin $(T)

campaign:
	@$(MAKE) --no-print-directory simulate
	@$(MAKE) --no-print-directory chaos
	@$(MAKE) --no-print-directory responses SLICE=60 SLICES=1
	@$(MAKE) --no-print-directory overload SLICE=60 SLICES=1
	@$(MAKE) --no-print-directory fuzz SECONDS=20

responses soak overload: build
seeds: simulate-build

responses soak overload seeds:
	@PYTHONDONTWRITEBYTECODE=1 python3 tests/campaign/campaign.py $(BUILD) $@ $(if $(SLICE),--slice $(SLICE)) \
	  $(if $(SLICES),--slices $(SLICES)) $(if $(GOAL),--goal $(GOAL))

campaign-table:
	@PYTHONDONTWRITEBYTECODE=1 python3 tests/campaign/campaign.py $(BUILD) table --write

interop interop-full: build
	@deploy/bootstrap.sh interop
	@PYTHONDONTWRITEBYTECODE=1 python3 tests/interop/run.py $(BUILD)/dunlin $(if $(ALLOW_MISSING),--allow-missing) \
	  $(if $(filter interop-full,$@),--full) $(if $(ONLY),--only $(ONLY)) \
	  $(if $(THIRD),--third $(THIRD) --changed $(CHANGED))

# The package of clients/python: the wheel build/python-client/dist/*.whl, tested against the server.
python-client: build
	@clients/python/build_and_test.sh $(BUILD)/dunlin

# A cross build for ARM, and a choice of the tests under emulation.
arm-test:
	@deploy/bootstrap.sh arm64
	@deploy/arm64_sysroot.sh
	@tests/arm/run.sh $(JOBS) $(T)

ui-test: build
	@deploy/bootstrap.sh ui
	@tests/ui/run.sh $(BUILD)/dunlin

# PYTHONDONTWRITEBYTECODE keeps the tree clean except for the results that NAME requests.
bench: build
	@PYTHONDONTWRITEBYTECODE=1 python3 tests/bench/run_goals.py $(BUILD)/dunlin $(if $(NAME),--name $(NAME))

loadtest: build
	@BINARY=$(BUILD)/dunlin deploy/loadtest/smoke_set.sh

# DIST_CUDA=1 adds the CUDA module, for all architectures: what `make test` built may be for a few.
dist: $(if $(filter 1,$(DIST_CUDA)),cuda) build
	@deploy/dist.sh $(BUILD) build/dist

dist-test: dist
	@$(if $(CROSS),tests/arm/dist.sh,deploy/verify_dist.sh) $(DIST) $(SUITE)

deb: dist
	@$(EMULATED) deploy/verify_deb.sh $(DIST) build/deb

service-test: dist
	@deploy/verify_service.sh $(DIST)

image: $(if $(or $(FROM_DIST),$(CROSS)),dist $(if $(filter cuda,$(TARGET)),image-module))
	@$(if $(FROM_DIST),$(if $(filter cuda,$(TARGET)),MODULE=build/dist/libdunlin_cuda.so)) \
	  $(EMULATED) deploy/verify_image.sh $(if $(or $(FROM_DIST),$(CROSS)),$(DIST))

# Next to the dist, which is all that an image sees of build/.
image-module: cuda
	@install -D -m 755 $(BUILD)/libdunlin_cuda.so build/dist/libdunlin_cuda.so

compose-test: dist
	@deploy/verify_compose.sh $(DIST)

charts: build
	@deploy/charts.sh $(BUILD)/dunlin

# RustSec's advisories against the locked crates: a vulnerability fails, a crate without a maintainer is named. ADVISORY_DB: a
# checkout of the database, where it cannot be fetched.
advisories: deps
	@cargo audit --version >/dev/null 2>&1 || cargo install --quiet --locked --root build/cargo cargo-audit@0.22.0
	@PATH="$(CURDIR)/build/cargo/bin:$$PATH" cargo audit --file text/rust/Cargo.lock $(if $(ADVISORY_DB),--db $(ADVISORY_DB) --no-fetch)

fmt:
	@git ls-files '*.h' '*.cc' '*.cu' '*.cuh' | xargs clang-format-14 -i
	@cargo fmt --manifest-path text/rust/Cargo.toml

fmt-check:
	@git ls-files '*.h' '*.cc' '*.cu' '*.cuh' | xargs clang-format-14 --dry-run --Werror
	@cargo fmt --manifest-path text/rust/Cargo.toml --check

tidy: configure
	cmake --build --preset $(PRESET) --target dunlin -j $(JOBS)
	@TIDY_LIMIT=100000 .ci/tidy_changed $$(git hash-object -t tree /dev/null)

clean:
	rm -rf build

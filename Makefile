# SPDX-License-Identifier: Apache-2.0
# One word each; CMake presets under them. PRESET=dev|release|asan|tsan where it makes sense.
PRESET ?= release
JOBS ?= $(shell nproc)
BUILD = build/$(PRESET)
# DEPS=build installs only what the binary needs.
DEPS ?=

.NOTPARALLEL:
.PHONY: help deps toolkit prometheus configure build cuda demo serve test fmt fmt-check tidy bench loadtest dist dist-test service-test image clean

help:
	@echo "make demo   install what is missing, build, serve models/demo, stream completions, show metrics"
	@echo "make serve  the demo server in the foreground"
	@echo "make test   build and run every test (PRESET=asan or tsan for the sanitizers)"
	@echo "make build  the binary build/$(PRESET)/dunlin"
	@echo "make bench  the cases with goals against this machine's roofs, <= 10 minutes (NAME=x keeps the results)"
	@echo "make loadtest  short loads with limits against servers of their own, <= 3 minutes (deploy/loadtest)"
	@echo "make cuda   its CUDA module build/$(PRESET)/libdunlin_cuda.so, with the nvcc on PATH or a pinned one"
	@echo "make dist   build/dist/dunlin-VERSION-linux-ARCH.tar.gz: serves where nothing of ours is installed"
	@echo "make dist-test  shows that in a bare Debian (as root, with debootstrap; SUITE=trixie for another)"
	@echo "make service-test  its systemd unit under a real systemd, in a container (as root; podman, runc, debootstrap)"
	@echo "make image  builds deploy/Dockerfile and runs it read-only, without a user or rights (as root; needs buildah,"
	@echo "            podman, runc, debootstrap); FROM_DIST=1 takes build/dist instead of building inside"
	@echo "make fmt | fmt-check | tidy | clean"

deps:
	@deploy/bootstrap.sh $(DEPS)

# Tests cover the CUDA module where a toolkit is there or can be had, and the monitoring where Prometheus is; without them
# the build is what it is without.
toolkit:
	@deploy/cuda_toolkit.sh || true

prometheus:
	@deploy/prometheus_tools.sh || true

configure: deps
	@cmake --preset $(PRESET) > $(PRESET).configure.log 2>&1 || (cat $(PRESET).configure.log; rm -f $(PRESET).configure.log; exit 1)
	@rm -f $(PRESET).configure.log

build: configure
	cmake --build --preset $(PRESET) --target dunlin -j $(JOBS)

cuda:
	@deploy/cuda_toolkit.sh
	@$(MAKE) --no-print-directory configure
	cmake --build --preset $(PRESET) --target dunlin_cuda -j $(JOBS)

demo: build
	@deploy/demo.sh $(BUILD)/dunlin configs/demo.json

serve: build
	$(BUILD)/dunlin serve --config configs/demo.json

test: toolkit prometheus configure
	cmake --build --preset $(PRESET) -j $(JOBS)
	ctest --preset $(PRESET) -j $(JOBS)

# PYTHONDONTWRITEBYTECODE: nothing is left in the tree but the results that NAME asks for.
bench: build
	@PYTHONDONTWRITEBYTECODE=1 python3 tests/bench/run_goals.py $(BUILD)/dunlin $(if $(NAME),--name $(NAME))

loadtest: build
	@BINARY=$(BUILD)/dunlin deploy/loadtest/smoke_set.sh

# DIST_CUDA=1 adds the CUDA module that `make cuda` built.
dist: build
	@deploy/dist.sh $(BUILD) build/dist

dist-test: dist
	@deploy/verify_dist.sh build/dist/dunlin-*.tar.gz $(SUITE)

service-test: dist
	@deploy/verify_service.sh build/dist/dunlin-*.tar.gz

image: $(if $(FROM_DIST),dist)
	@deploy/verify_image.sh $(if $(FROM_DIST),build/dist/dunlin-*.tar.gz)

fmt:
	@git ls-files '*.h' '*.cc' '*.cu' '*.cuh' | xargs clang-format-14 -i
	@cargo fmt --manifest-path engine/text/rust/Cargo.toml

fmt-check:
	@git ls-files '*.h' '*.cc' '*.cu' '*.cuh' | xargs clang-format-14 --dry-run --Werror
	@cargo fmt --manifest-path engine/text/rust/Cargo.toml --check

tidy: configure
	cmake --build --preset $(PRESET) --target dunlin -j $(JOBS)
	@git ls-files 'engine/*.cc' 'server/*.cc' 'kernels/*.cc' ':!kernels/cuda/m*.cc' ':!kernels/cuda/attention/attention.cc' | xargs -P $(JOBS) -n 4 clang-tidy-14 --quiet --extra-arg=-Wno-unknown-warning-option -p $(BUILD)

clean:
	rm -rf build

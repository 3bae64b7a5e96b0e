#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs the missing dependencies of the CPU build with the system's package manager. A second run does nothing.
# Usage: bootstrap.sh [build|interop|ui|fuzz|arm64|libraries]. "build" skips packages that only `make test`, `make fmt` and
# `make tidy` need; "interop", "ui", "fuzz" and "arm64" are what `make interop`, `make ui-test`, `make fuzz` and `make arm-test`
# need besides "build", from wherever it is on PATH; "libraries" prints the libraries that the binary and its tests link.
set -euo pipefail

libraries=(
  libgrpc++-dev libprotobuf-dev
  libspdlog-dev nlohmann-json3-dev libcli11-dev prometheus-cpp-dev libboost-dev libssl-dev libzmq3-dev libeigen3-dev
  libgtest-dev libgmock-dev
)
if [ "${1:-}" = libraries ]; then
  printf '%s\n' "${libraries[@]}"
  exit 0
fi
packages=(
  build-essential cmake ninja-build pkg-config git ca-certificates ccache
  protobuf-compiler protobuf-compiler-grpc "${libraries[@]}"
)
[ "${1:-}" = build ] || python3 -c 'import ensurepip' 2>/dev/null || packages+=(python3-venv)
case "${1:-}" in
  build) ;;
  interop) command -v node >/dev/null && command -v npm >/dev/null || packages+=(nodejs npm) ;;
  ui)
    command -v node >/dev/null && command -v npm >/dev/null || packages+=(nodejs npm)
    command -v chromium >/dev/null || packages+=(chromium)
    ;;
  arm64) packages+=(g++-aarch64-linux-gnu qemu-user clang-14) ;;
  fuzz) packages+=(clang-14 libclang-rt-14-dev lld llvm-14 python3) ;;
  *) packages+=(clang-14 clang-format-14 clang-tidy-14 lld python3-jsonschema openssl faketime) ;;
esac

# The text library needs a newer Rust than Debian's default one: 1.85 (edition 2024 dependencies).
rust_is_new_enough() {
  local version
  version=$(cargo --version 2>/dev/null | awk '{print $2}') || return 1
  [ -n "$version" ] && [ "$(printf '%s\n' 1.85.0 "$version" | sort -V | head -1)" = 1.85.0 ]
}

missing=()
for package in "${packages[@]}"; do
  dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed || missing+=("$package")
done
rust_is_new_enough || missing+=(cargo-web rustc-web)
[ "${#missing[@]}" -eq 0 ] && exit 0

command -v apt-get >/dev/null || { echo "needs these packages (Debian names): ${missing[*]}" >&2; exit 1; }
as_root=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || { echo "run as root, or install: ${missing[*]}" >&2; exit 1; }
  as_root=(sudo)
fi
echo "installing: ${missing[*]}"
"${as_root[@]}" apt-get update -q </dev/null | tail -1
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "${missing[@]}" \
  </dev/null | grep -E '^(Need to get|Fetched|[0-9]+ upgraded)|^E:' || true
for package in "${missing[@]}"; do
  dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed ||
    { echo "could not install $package" >&2; exit 1; }
done

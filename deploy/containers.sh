# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Sourced by the scripts that run containers, from the repository's root: configures podman with its own storage, so
# that the machine's images and containers are not touched.

for tool in podman runc; do
  command -v "$tool" >/dev/null || { echo "needs $tool (a Debian package)" >&2; exit 1; }
done
mkdir -p build/deploy/containers
store=(--root "$PWD/build/deploy/containers/store" --runroot "$PWD/build/deploy/containers/run")
pod() { podman "${store[@]}" --runtime runc --cgroup-manager cgroupfs "$@"; }

# Resource limits that do not depend on this shell's; the host's network, so that the machine's network configuration is
# not changed.
run_options=(--network host --ulimit nofile=4096:4096 --ulimit nproc=4096:4096)

# base_image SUITE [PACKAGE...]: prints the name of an image of that clean root (clean_root.sh), of ARCHITECTURE.
base_image() {
  local image root
  image=localhost/dunlin-base:$(tr ' ' - <<<"$*")${ARCHITECTURE:+-$ARCHITECTURE}
  if ! pod image exists "$image"; then
    root=$(deploy/clean_root.sh "$@")
    tar -C "$root" --exclude './proc/*' -c . | pod import -q ${ARCHITECTURE:+--arch "$ARCHITECTURE"} - "$image" >/dev/null
  fi
  echo "$image"
}

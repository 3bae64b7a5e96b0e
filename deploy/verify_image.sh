#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds deploy/Dockerfile and checks the image: it runs read-only, unprivileged, without capabilities, in 512 MB,
# streams a completion, reports healthy and stops. Usage: verify_image.sh [DIST.tar.gz], a dist under build/dist to use
# instead of building one in the image. BASE names the Debian 12 base image; by default debootstrap creates one. Needs
# root, buildah, podman and runc. Exit status 1 if a check failed.
# TARGET=cuda checks that target on a CPU: the same, and that a model on the CUDA device is refused for want of a driver alone.
# MODULE is then a libdunlin_cuda.so under build/dist to use instead of building one.
# TWICE=1 builds a second time without the first's layers, and compares both. ARCHITECTURE=arm64, from a dist for it: that image,
# under emulation (arm64_run.sh).
set -euo pipefail
cd "$(dirname "$0")/.."
. deploy/checks.sh
. deploy/containers.sh
. deploy/image_build.sh

command -v buildah >/dev/null || { echo "needs buildah (a Debian package)" >&2; exit 1; }
target=${TARGET:-cpu}
image=localhost/dunlin:verify-$target${ARCHITECTURE:+-$ARCHITECTURE}
started=$SECONDS
dist=${1:-}
options=(--target "$target" --build-arg DIST="$dist" --build-arg MODULE="${MODULE:-}")
build_image "$image" deploy/Dockerfile "${options[@]}"
echo "$image built in $((SECONDS - started)) s ${dist:+from $(basename "$dist")}"

container=dunlin-verify-$$
port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
grpc=127.0.0.1:$(port)
http=127.0.0.1:$(port)
cleanup() {
  pod rm --force --ignore --time 1 "$container" >/dev/null 2>&1 || true
  pod image unmount --all >/dev/null 2>&1 || true
}
trap cleanup EXIT

# The image's health command uses the default port, so this run overrides it with the actual one.
pod run --detach --name "$container" --read-only --read-only-tmpfs=false --cap-drop all \
  --security-opt no-new-privileges --memory 512m --pids-limit 100 "${run_options[@]}" --health-interval disable \
  --health-cmd "[\"/opt/dunlin/bin/dunlin\", \"healthcheck\", \"--address\", \"$grpc\"]" \
  "$image" serve --config /opt/dunlin/configs/demo.json --set listen.grpc="$grpc" --set listen.http="$http" >/dev/null
ready() { pod logs "$container" 2>/dev/null | grep '^READY '; }
await 60 ready || { pod logs "$container" >&2; echo "verify_image: not ready" >&2; exit 1; }

field() { pod inspect --format "$1" "$image"; }
bytes=$(field '{{.Size}}')
limit=120
[ "$target" = cpu ] || limit=900 # cuBLASLt alone is 700 MB
check "uncompressed, <= $limit MB" "$bytes bytes" test "$bytes" -le "${limit}000000"
if [ -n "${TWICE:-}" ]; then
  build_image "$image-again" deploy/Dockerfile "${options[@]}" --no-cache
  id=$(field '{{.Id}}')
  again=$(pod inspect --format '{{.Id}}' "$image-again")
  check "a second build" "${again:0:12}, the first ${id:0:12}" test "$id" = "$again"
fi
label=$(field '{{index .Labels "org.opencontainers.image.version"}}')
tells=$(pod exec "$container" /opt/dunlin/bin/dunlin --version)
check "version in label and binary" "$label, $tells" test "$label" = "$tells"
health=$(field '{{.HealthCheck.Test}}')
check "HEALTHCHECK of the image" "$(cut -c1-42 <<<"$health")" grep -q "dunlin healthcheck" <<<"$health"
tree=$(pod image mount "$image")
programs=$(find "$tree" -type f -perm /111 ! -name '*.so*' -printf '%P ')
check "executables in the image" "$programs" test "$programs" = "opt/dunlin/bin/dunlin "
check "CA certificates" "$(grep -c BEGIN "$tree/etc/ssl/certs/ca-certificates.crt")" \
  grep -q BEGIN "$tree/etc/ssl/certs/ca-certificates.crt"
components=$(python3 -c 'import json, sys; print(len(json.load(open(sys.argv[1]))["components"]))' \
  "$tree/opt/dunlin/sbom.cdx.json")
check "components in the SBOM, including glibc" "$components" grep -q deb/debian/libc6@ "$tree/opt/dunlin/sbom.cdx.json"
if [ "$target" = cuda ]; then
  libraries=$(cd "$tree" && find opt -name libdunlin_cuda.so -o -name 'libcublasLt.so*' | sort | paste -sd' ')
  check "module and cuBLASLt" "$libraries" \
    test "$libraries" = "opt/cublas/libcublasLt.so.13 opt/dunlin/bin/libdunlin_cuda.so"
  held=$(grep -o 'pkg:pypi/nvidia-[a-z-]*@[0-9.]*' "$tree/opt/dunlin/sbom.cdx.json" | sort -u | sed 's|pkg:pypi/nvidia-||' | paste -sd' ')
  check "of NVIDIA in the SBOM" "$held" test "$(wc -w <<<"$held")" -eq 4
  check "licence of cuBLAS" "$(wc -c <"$tree/opt/dunlin/licenses/nvidia-cublas") bytes" \
    grep -qi nvidia "$tree/opt/dunlin/licenses/nvidia-cublas"
  # The image's own command: what is missing here must be the driver, which the container runtime brings, and nothing else.
  said=$(pod run --rm --read-only --cap-drop all "${run_options[@]}" "$image" 2>&1 || true)
  check "device cuda without a driver" "$(grep -o 'cannot be opened: .*' <<<"$said" | cut -c1-42)" \
    grep -q 'device cuda cannot be opened: there is no CUDA driver' <<<"$said"
fi
no_shell() { ! pod exec "$container" /bin/sh -c true 2>/dev/null; }
check "a shell" "none" no_shell

pid=$(pod inspect --format '{{.State.Pid}}' "$container")
status() { awk -v key="$1:" '$1 == key {print $2}' "/proc/$pid/status"; }
check "uid" "$(status Uid)" test "$(status Uid)" -eq 65532
check "effective and bounding capabilities" "$(status CapEff) $(status CapBnd)" \
  test "$(status CapEff)$(status CapBnd)" = "$(printf '0%.0s' {1..32})"
check "no new privileges, seccomp filter" "$(status NoNewPrivs), $(status Seccomp)" \
  test "$(status NoNewPrivs)$(status Seccomp)" = 12
writable=$(awk '$5 == "/" {print $6}' "/proc/$pid/mountinfo")
check "root file system" "${writable%%,*}" test "${writable%%,*}" = ro
check "READY" "$(ready)" test -n "$(ready)"
text=$(pod exec "$container" /opt/dunlin/bin/dunlin generate --address "$grpc" --model demo --max-tokens 16 --ignore-eos \
  --temperature 0 --precision fp8 "The history of the" || true)
check "streamed completion" "$(tr -s '[:space:]' ' ' <<<"$text" | cut -c1-40)" test -n "$text"
check "health check of the image" "run by podman" pod healthcheck run "$container"
metrics=$(exec 3<>"/dev/tcp/${http%:*}/${http##*:}" && printf 'GET /metrics HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n' "$http" >&3 &&
  grep -a '^dunlin_requests_total' <&3 || true)
check "/metrics from outside" "$(cut -d'{' -f1 <<<"$metrics") ${metrics##* }" test -n "$metrics"
memory=$(status VmHWM)
check "peak memory, < 512 MB" "$memory kB" test "$memory" -lt 524288
pod stop --time 30 "$container" >/dev/null
code=$(pod inspect --format '{{.State.ExitCode}}' "$container")
check "exit status after podman stop" "$code" test "$code" -eq 0
end_checks

#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Packs the server and its libraries into one relocatable archive: dunlin-VERSION-linux-ARCH.tar.gz. The archive is
# reproducible from the same binary and commit. Usage: dist.sh BUILD_DIR OUT_DIR. The last line on stdout is its path.
# BUILD_DIR may be the cross build, build/aarch64.
# DIST_CUDA=1 adds the CUDA module BUILD_DIR/libdunlin_cuda.so next to the binary, and the tests that check it on a GPU
# (deploy/gpu_tests.sh): tests/gpu_check.sh.
set -euo pipefail
cd "$(dirname "$0")/.."
. deploy/target.sh

build=$1
out=$2
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH
limit_bytes=60000000
[ "${DIST_CUDA:-0}" != 1 ] || limit_bytes=80000000

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
set_target "$build/dunlin"
name=dunlin-$($EMULATOR "$build/dunlin" --version)-linux-$machine
stage=$work/$name
mkdir -p "$stage"/{bin,lib,licenses}

"${tools}strip" -o "$stage/bin/dunlin" "$build/dunlin"
if [ "${DIST_CUDA:-0}" = 1 ]; then
  [ -e "$build/libdunlin_cuda.so" ] || { echo "dist: no $build/libdunlin_cuda.so; run make cuda" >&2; exit 1; }
  strip -o "$stage/bin/libdunlin_cuda.so" "$build/libdunlin_cuda.so"
fi

# The binary finds lib/ through its run path.
deploy/libraries.sh "$build/dunlin" >"$work/libraries"
while read -r soname path; do
  cp -L "$path" "$stage/lib/$soname"
  chmod 644 "$stage/lib/$soname"
done <"$work/libraries"

deploy/sbom.py "$build/dunlin" "$build" >"$stage/sbom.cdx.json"
sed -n 's/.*"bom-ref": "pkg:deb\/[a-z]*\/\([^@]*\)@.*/\1/p' "$stage/sbom.cdx.json" | while read -r package; do
  cp -L "$SYSROOT/usr/share/doc/$package/copyright" "$stage/licenses/$package"
done

[ "${DIST_CUDA:-0}" != 1 ] || deploy/gpu_tests.sh "$build" "$stage" "$stage/bin"

cp -r configs docs README.md "$stage/"
cp -r --parents models/demo "$stage/"
cp -r --parents deploy/systemd deploy/prometheus deploy/grafana "$stage/"

find "$stage" -type d -exec chmod 755 {} +
find "$stage" -type f ! -path '*/bin/*' ! -name 'gpu_*.sh' -exec chmod 644 {} +
mkdir -p "$out"
tar -C "$work" --sort=name --format=gnu --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner -c "$name" |
  gzip -n >"$out/$name.part"
mv "$out/$name.part" "$out/$name.tar.gz" # atomically, for concurrent readers of the previous one

bytes=$(stat -c %s "$out/$name.tar.gz")
[ "$bytes" -le "$limit_bytes" ] || { echo "dist: $bytes bytes, limit $limit_bytes" >&2; exit 1; }
needs=$(for file in "$stage"/bin/* "$stage"/bin/tests/* "$stage"/lib/*; do "${tools}objdump" -T "$file" 2>/dev/null; done |
  grep -o 'GLIBC_[0-9.]*' | sort -uV | tail -1)
echo "$bytes bytes, needs $machine and ${needs/GLIBC_/glibc }"
echo "$out/$name.tar.gz"

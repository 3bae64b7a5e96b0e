#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Creates the image's root file system: a dist at /opt/dunlin and, from this system, the parts that a dist does not
# contain: glibc's loader and libraries, CA certificates. Usage: image_root.sh DIST.tar.gz ROOT; instead of a dist the folder
# with that of this machine's architecture.
set -euo pipefail

dist=$1
root=$2
here=$(cd "$(dirname "$0")" && pwd)

[ ! -d "$dist" ] || dist=$(echo "$dist"/dunlin-*-linux-"$(uname -m)".tar.gz)
mkdir -p "$root/opt" "$root/etc/ssl/certs"
tar -C "$root/opt" -xzf "$dist"
mv "$root"/opt/dunlin-* "$root/opt/dunlin"
home=$root/opt/dunlin
rm -r "$home/deploy"

# Libraries that the loader finds outside the dist, copied to the paths where it looks for them.
ldd "$home/bin/dunlin" | grep -oE '/[^ ]+ \(0x' | cut -d' ' -f1 | grep -v "^$root/" | while read -r library; do
  install -D -m 755 "$library" "$root$library"
done
install -m 644 /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
echo 'dunlin:x:65532:65532::/:/nonexistent' >"$root/etc/passwd"
echo 'dunlin:x:65532:' >"$root/etc/group"

for package in libc6 ca-certificates; do cp -L "/usr/share/doc/$package/copyright" "$home/licenses/$package"; done
python3 "$here/sbom.py" --extend "$home/sbom.cdx.json" libc6 ca-certificates >"$root/sbom.part"
mv "$root/sbom.part" "$home/sbom.cdx.json"
find "$root" -exec touch --no-dereference --date="@${SOURCE_DATE_EPOCH:-0}" {} +

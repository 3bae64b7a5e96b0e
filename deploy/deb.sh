#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Packs a dist into a Debian package: dunlin_VERSION_ARCH.deb, with the dist at /opt/dunlin, the unit of deploy/systemd, which
# then runs as the user dunlin, and the config of the demo model at /etc/dunlin/config.json. The service is neither enabled
# nor started by an installation; an upgrade restarts it if it runs. Needs dpkg-deb and dpkg-shlibdeps (dpkg-dev).
# Usage: deb.sh DIST.tar.gz OUT_DIR [VERSION]; the last line on stdout is the package's path.
set -euo pipefail
dist=$(realpath "$1")
mkdir -p "$2"
out=$(realpath "$2")
cd "$(dirname "$0")/.."
. deploy/target.sh
for tool in dpkg-deb dpkg-shlibdeps; do
  command -v "$tool" >/dev/null || { echo "deb: needs $tool (packages dpkg and dpkg-dev)" >&2; exit 1; }
done

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
stage=$work/dunlin
mkdir -p "$stage"/{DEBIAN,opt,etc/dunlin,usr/bin,usr/lib/systemd/system/dunlin.service.d,usr/share/doc/dunlin}
tar -C "$stage/opt" -xzf "$dist"
mv "$stage"/opt/dunlin-* "$stage/opt/dunlin"
home=$stage/opt/dunlin
set_target "$home/bin/dunlin"
version=${3:-$($EMULATOR "$home/bin/dunlin" --version)}
architecture=$([ "$machine" = aarch64 ] && echo arm64 || echo amd64)
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(stat -c %Y "$home/bin/dunlin")}
export SOURCE_DATE_EPOCH

ln -s /opt/dunlin/bin/dunlin "$stage/usr/bin/dunlin"
sed 's|\.\./models|/opt/dunlin/models|' "$home/configs/demo.json" >"$stage/etc/dunlin/config.json"
sed '/^#   cp /d' "$home/deploy/systemd/dunlin.service" >"$stage/usr/lib/systemd/system/dunlin.service"
cp deploy/deb/user.conf "$stage/usr/lib/systemd/system/dunlin.service.d/"
cat LICENSE deploy/deb/copyright >"$stage/usr/share/doc/dunlin/copyright"

# The SBOM lists the packages of which lib/ and the binary hold something, libc6 for its static parts. Of what they need,
# libc6 alone is left to the system.
mkdir "$work/debian"
printf 'Source: dunlin\n\nPackage: dunlin\nArchitecture: any\n' >"$work/debian/control"
mapfile -t held < <(sed -n 's/.*"bom-ref": "pkg:deb\/[a-z]*\/\([^@]*\)@.*/-x\1/p' "$home/sbom.cdx.json" |
  grep -vx -e -xlibc6)
[ "${#held[@]}" -gt 0 ] || { echo "deb: the SBOM lists no packages" >&2; exit 1; }
if [ -z "$EMULATOR" ]; then
  depends=$(cd "$work" && dpkg-shlibdeps --warnings=0 --ignore-missing-info -O -S"$stage" -l"$home/lib" "${held[@]}" "$home"/bin/dunlin \
    "$home"/lib/* | sed 's/^shlibs:Depends=//')
else # whose libc6 is not installed here: of the newest symbol
  depends=$(for file in "$home"/bin/dunlin "$home"/lib/*; do "${tools}objdump" -T "$file"; done |
    sed -n 's/.*GLIBC_\([0-9.]*\).*/\1/p' | sort -uV | tail -1 | sed 's/.*/libc6 (>= &)/')
fi
[ -n "$depends" ] || { echo "deb: dpkg-shlibdeps found no dependencies" >&2; exit 1; }

sed "s|@VERSION@|$version|; s|@ARCHITECTURE@|$architecture|; s|@DEPENDS@|$depends|
  s|@SIZE@|$(du -sk --apparent-size "$stage" | cut -f1)|" deploy/deb/control >"$stage/DEBIAN/control"
echo /etc/dunlin/config.json >"$stage/DEBIAN/conffiles"
for script in postinst prerm postrm; do install -m 755 "deploy/deb/$script" "$stage/DEBIAN/"; done
(cd "$stage" && find opt usr -type f -print0 | sort -z | xargs -0 md5sum >DEBIAN/md5sums)
find "$stage" -type d -exec chmod 755 {} +

package=$out/dunlin_${version}_$architecture.deb
dpkg-deb --root-owner-group -Zgzip --build "$stage" "$package" >/dev/null
echo "$(stat -c %s "$package") bytes, depends on $depends"
echo "$package"

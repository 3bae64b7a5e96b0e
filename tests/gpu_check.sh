#!/usr/bin/env bash
# Checks the CUDA device on a machine with a GPU, in at most six minutes, and ends in a table.
# Usage: tests/gpu_check.sh [FOLDER]: a build folder (build/release) or an unpacked bundle of deploy/gpu_bundle.sh.
# CUBLAS=FILE names the cuBLASLt library where the system does not find it. Exit status: 0 all passed, 1 not, 77 no GPU.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
[ -x "$here/../dunlin" ] && default=$here/.. || default=$here/../build/release
folder=$(cd "${1:-$default}" && pwd)
[ -d "$folder/lib" ] && export LD_LIBRARY_PATH=$folder/lib
exec python3 "$here/gpu_check.py" --folder "$folder" ${CUBLAS:+--cublas "$CUBLAS"}

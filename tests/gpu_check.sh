#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Checks the CUDA device on a machine with a GPU, in at most six minutes, and ends in a table. Logs stay in
# gpu_check_results/DEVICE (--out FOLDER for another place).
# Usage: tests/gpu_check.sh [FOLDER] [--out FOLDER] [--rehearse]. FOLDER: a build folder (build/release), an unpacked
# bundle of deploy/gpu_bundle.sh, or bin of a dist with the CUDA module. CUBLAS=PATH names the cuBLASLt library, or where
# to look for it, if the system does not find it. --rehearse runs the same rows, small, on the fake module.
# Exit status: 0 all passed, 1 not, 77 no GPU.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/gpu_folder.sh"
exec python3 "$here/gpu_check.py" --folder "$folder" ${CUBLAS:+--cublas "$CUBLAS"} "$@"

#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The CUDA device's kernels under compute-sanitizer on small shapes: memcheck, racecheck, synccheck, initcheck; at most
# five minutes. Run it alone: next to other processes an H100 stopped answering. Usage, results and exit status as
# gpu_check.sh, of which it is one part; 77 where there is no compute-sanitizer: on PATH, in /usr/local/cuda, or in
# site-packages.
set -euo pipefail
exec "$(dirname "$0")/gpu_check.sh" "$@" --part sanitize

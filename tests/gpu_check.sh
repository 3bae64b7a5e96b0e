#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Checks and measures the CUDA device on a machine with an NVIDIA GPU and a driver, beside PyTorch where there is one.
# Needs bash and Python 3.10. --rehearse runs it on the fake module.
# Usage: tests/gpu_check.sh [FOLDER] [--part 1|2|3|sanitize|all] [--rows NAME,...] [--list] [--out FOLDER] [--rehearse]
# (and what --help lists).
# FOLDER: a build folder (build/release), an unpacked bundle of deploy/gpu_bundle.sh, or bin of a dist with the CUDA
# module. Each part ends after at most 5 minutes: 1, whether the kernels are right, as tests that run together, and how
# fast; 2, served models and further shapes; 3, attention with soft caps, with ALiBi and of heads of 512; sanitize
# (gpu_sanitize.sh), alone on the machine. Without --part, all run.
# CUBLAS=PATH (--cublas PATH) names the cuBLASLt library or where to look for it; else PyTorch's site-packages, then the
# system. PYTHON=PROGRAM (--python PROGRAM) is the Python that has PyTorch.
# gpu_check_results/DEVICE (--out FOLDER for another place) collects results.jsonl, table.txt, summary.md and every log;
# DEVICE.tar.gz beside it holds them all, also after Ctrl-C. The end of stdout is a digest for a report: failures, and a
# line for each measurement.
# Exit status: 0 all passed, 1 not, also where the device cannot be opened; 77 no row could run; 2 usage error.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/gpu_folder.sh"
exec python3 -B "$here/gpu_check" --folder "$folder" --caller-libraries "$caller_libraries" \
  ${CUBLAS:+--cublas "$CUBLAS"} "$@"

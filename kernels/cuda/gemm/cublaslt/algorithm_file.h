// SPDX-License-Identifier: Apache-2.0
// The text form of the cuBLASLt algorithms chosen for GEMMs: a title, the platform that they were measured on, one line
// per GEMM, and a checksum over all of it, so that a truncated file is detected. Host code.
#pragma once

#include <map>
#include <string>

#include "kernels/cuda/gemm/cublaslt/cublaslt_api.h"

namespace dunlin::kernels::cuda {

// By the GEMM's name: one line without '='.
using Algorithms = std::map<std::string, MatmulAlgo>;

// platform: one line.
std::string EncodeAlgorithms(const std::string& platform, const Algorithms& algorithms);

// Returns "" and fills *algorithms; or returns why the text is unusable (missing, truncated, damaged, of another
// platform) and leaves *algorithms empty.
std::string DecodeAlgorithms(const std::string& text, const std::string& platform, Algorithms* algorithms);

}  // namespace dunlin::kernels::cuda

// SPDX-License-Identifier: Apache-2.0
// cuBLASLt in plain C++ over host memory: records its calls, computes GEMMs, and refuses what the real library would.
// For tests of how GEMMs are described to it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "kernels/cuda/gemm/cublaslt/cublaslt_api.h"

namespace dunlin::kernels::cuda {

struct FakeCublasLt {
  int candidates = 2;                                   // returned by the heuristic: 100, 101, ...
  std::map<uint64_t, std::vector<uint64_t>> proposals;  // returned instead, by number of rows
  int bad_candidates = 0;                               // the first of these refuse a single row
  bool matmul_fails = false;
  bool no_activation = false;        // no epilogue has an activation
  bool split_is_refused = true;      // the heuristic returns results only where split-K is excluded
  int heuristics = 0;                // calls so far
  int objects = 0;                   // live descriptors
  std::vector<uint64_t> algorithms;  // of every GEMM, in order
  uint64_t rows = 0;                 // of the last GEMM
  bool fast_accumulation = false;    // of the last GEMM
  std::string refusal;               // why the last GEMM was refused
};

// The function table, over the single state below. Tests run one at a time.
const CublasLt& FakeCublasLtTable();
FakeCublasLt& FakeCublasLtState();

}  // namespace dunlin::kernels::cuda

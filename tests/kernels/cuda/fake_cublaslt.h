// cuBLASLt in plain C++ over host memory: keeps what it is told, computes what it is asked, refuses what the real one
// would. For the tests of how the GEMMs describe their products.
#pragma once

#include <string>
#include <vector>

#include "kernels/cuda/cublaslt_api.h"

namespace dunlin::kernels::cuda {

struct FakeCublasLt {
  int candidates = 2;      // that the heuristic returns
  int bad_candidates = 0;  // of them, the first, that do not take a single row
  bool matmul_fails = false;
  bool no_activation = false;        // no epilogue has one
  bool split_is_refused = true;      // a proposal is given only where split-K is excluded
  int heuristics = 0;                // calls so far
  int objects = 0;                   // descriptors alive
  std::vector<uint64_t> algorithms;  // of every product, in order
  std::string refusal;               // why the last product was refused
};

// The table; it works on the one object below. Tests run one at a time.
const CublasLt& FakeCublasLtTable();
FakeCublasLt& FakeCublasLtState();

}  // namespace dunlin::kernels::cuda

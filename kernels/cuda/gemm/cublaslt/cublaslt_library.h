// SPDX-License-Identifier: Apache-2.0
// Loads cuBLASLt at run time. Once opened, the library stays in the process.
#pragma once

#include <string>

#include "kernels/cuda/gemm/cublaslt/cublaslt_api.h"

namespace dunlin::kernels::cuda {

// Fills the table from the first usable one of CublasCandidates(setting). False, with every candidate's reason in
// *error: no library, a missing function, older than kCublasVersionMin.
bool LoadCublasLt(const std::string& setting, CublasLt* cublas, std::string* error);

// The file that a filled table's functions are from.
std::string PathOf(const CublasLt& cublas);

}  // namespace dunlin::kernels::cuda

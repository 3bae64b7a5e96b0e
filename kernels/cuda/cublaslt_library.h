// Finding cuBLASLt at run time. The library stays in the process once it was opened.
#pragma once

#include <string>

#include "kernels/cuda/cublaslt_api.h"

namespace dunlin::kernels::cuda {

// Fills the table from the first of CublasCandidates(setting) that serves. False, with the reason against each in
// *error: no library, one without a function, one older than kCublasVersionMin.
bool LoadCublasLt(const std::string& setting, CublasLt* cublas, std::string* error);

}  // namespace dunlin::kernels::cuda

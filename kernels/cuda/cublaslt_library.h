// Finding cuBLASLt at run time. The library stays in the process once it was opened.
#pragma once

#include <string>

#include "kernels/cuda/cublaslt_api.h"

namespace dunlin::kernels::cuda {

// Fills the table from the library at `path`, or, where that is empty, from the first that the system finds by name.
// False, with the reason in *error: no library, one without a function, one older than kCublasVersionMin.
bool LoadCublasLt(const std::string& path, CublasLt* cublas, std::string* error);

}  // namespace dunlin::kernels::cuda

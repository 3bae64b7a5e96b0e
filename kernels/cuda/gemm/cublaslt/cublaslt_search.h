// SPDX-License-Identifier: Apache-2.0
// The search path of cuBLASLt. Host code.
#pragma once

#include <string>
#include <vector>

namespace dunlin::kernels::cuda {

// What to open, in order, for the config key compute.cublas_library. "": the names that the dynamic linker resolves.
// Otherwise parts separated by ':'. A folder stands for the libraries in it and in the subfolders where toolkits and
// PyTorch's wheels put them (a toolkit's root, site-packages), newest first; any other part is a file, or a name for
// the dynamic linker.
std::vector<std::string> CublasCandidates(const std::string& setting);

}  // namespace dunlin::kernels::cuda

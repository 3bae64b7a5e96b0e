// Where cuBLASLt may lie. Host code alone.
#pragma once

#include <string>
#include <vector>

namespace dunlin::kernels::cuda {

// What to open, in order, for a setting (compute.cublas_library): "" is the names that the system resolves. Else parts,
// separated by ':'. A part that is a folder stands for the libraries that lie in it and where toolkits and the wheels
// of PyTorch put them (a toolkit's folder, site-packages), newest first; any other is a file, or a name for the system.
std::vector<std::string> CublasCandidates(const std::string& setting);

}  // namespace dunlin::kernels::cuda

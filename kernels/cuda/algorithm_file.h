// The text that keeps chosen algorithms of cuBLASLt on disk: a title, the platform that they were chosen on, a line a
// product, and a checksum of all of it, so that a part of a file is never taken for one. Host code alone.
#pragma once

#include <map>
#include <string>

#include "kernels/cuda/cublaslt_api.h"

namespace dunlin::kernels::cuda {

// By product: its name, one line without '='.
using Algorithms = std::map<std::string, MatmulAlgo>;

// platform: one line.
std::string EncodeAlgorithms(const std::string& platform, const Algorithms& algorithms);

// "" with the entries of the text, or why it is of no use and nothing in *algorithms: no such file, torn or damaged, of
// another platform.
std::string DecodeAlgorithms(const std::string& text, const std::string& platform, Algorithms* algorithms);

}  // namespace dunlin::kernels::cuda

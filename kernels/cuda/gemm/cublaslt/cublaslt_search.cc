// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/gemm/cublaslt/cublaslt_search.h"

#include <filesystem>
#include <sstream>

namespace dunlin::kernels::cuda {
namespace {

constexpr const char* kNames[] = {"libcublasLt.so.13", "libcublasLt.so.12"};
// Subfolders of a part: itself, a toolkit's, and those of the CUDA 13 and CUDA 12 wheels beside PyTorch.
constexpr const char* kPlaces[] = {
    "", "lib64", "lib", "targets/x86_64-linux/lib", "nvidia/cu13/lib", "cublas/lib", "nvidia/cublas/lib"};

void AddFolder(const std::filesystem::path& folder, std::vector<std::string>* candidates) {
  for (const char* name : kNames) {
    for (const char* place : kPlaces) {
      const std::filesystem::path file = folder / place / name;
      std::error_code ignored;
      if (std::filesystem::exists(file, ignored)) candidates->push_back(file.string());
    }
  }
}

}  // namespace

std::vector<std::string> CublasCandidates(const std::string& setting) {
  if (setting.empty()) return {std::begin(kNames), std::end(kNames)};
  std::vector<std::string> candidates;
  std::istringstream parts(setting);
  for (std::string part; std::getline(parts, part, ':');) {
    std::error_code ignored;
    if (std::filesystem::is_directory(part, ignored)) {
      AddFolder(part, &candidates);
    } else if (!part.empty()) {
      candidates.push_back(part);
    }
  }
  return candidates;
}

}  // namespace dunlin::kernels::cuda

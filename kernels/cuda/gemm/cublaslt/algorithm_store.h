// SPDX-License-Identifier: Apache-2.0
// The fastest cuBLASLt algorithm known for each GEMM, in memory and, where a path is given, in a file shared by
// processes. Processes may write concurrently: the file is always one complete version. Thread rule: one thread at a
// time.
#pragma once

#include <string>

#include "kernels/cuda/gemm/cublaslt/algorithm_file.h"

namespace dunlin::kernels::cuda {

class AlgorithmStore {
 public:
  // path: "" keeps nothing on disk; its folder must exist. platform: one line with what a choice depends on besides the
  // GEMM: GPU, driver, runtime and library.
  AlgorithmStore(std::string path, std::string platform) : path_(std::move(path)), platform_(std::move(platform)) {}

  bool on_disk() const { return !path_.empty(); }

  // Loads the file. Returns "", or one sentence for the log when the file exists but is unusable; it will be replaced.
  std::string Read();
  // Null: unknown.
  const MatmulAlgo* Find(const std::string& product) const;
  void Add(const std::string& product, const MatmulAlgo& algo);
  // Writes the file if anything was added, merged with what other processes wrote meanwhile; for a GEMM that both
  // chose, the file's choice stays. Returns "", or one sentence for the log.
  std::string Write();

 private:
  std::string ReadFile(Algorithms* algorithms) const;

  const std::string path_;
  const std::string platform_;
  Algorithms known_;
  bool added_ = false;  // since the file was last written
};

}  // namespace dunlin::kernels::cuda

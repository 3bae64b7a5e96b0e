// Which algorithm of cuBLASLt is the quickest for a product, in memory and, where it has a path, in a file between
// processes. Two processes may write at once: a file is always one of theirs, whole. Thread rule: one at a time.
#pragma once

#include <string>

#include "kernels/cuda/algorithm_file.h"

namespace dunlin::kernels::cuda {

class AlgorithmStore {
 public:
  // path: "" keeps nothing on disk; its folder is there. platform: what an algorithm depends on beside the product, one
  // line: GPU, driver, runtime and library.
  AlgorithmStore(std::string path, std::string platform) : path_(std::move(path)), platform_(std::move(platform)) {}

  bool on_disk() const { return !path_.empty(); }

  // Takes in what the file has. "", or one sentence for a log: the file is there and of no use. It will be replaced.
  std::string Read();
  // Null: not known.
  const MatmulAlgo* Find(const std::string& product) const;
  void Add(const std::string& product, const MatmulAlgo& algo);
  // Writes the file when something was added, with what another process has put there meanwhile; of a product that both
  // know, its choice stays. "", or one sentence for a log.
  std::string Write();

 private:
  std::string ReadFile(Algorithms* algorithms) const;

  const std::string path_;
  const std::string platform_;
  Algorithms known_;
  bool added_ = false;  // since the file was written
};

}  // namespace dunlin::kernels::cuda

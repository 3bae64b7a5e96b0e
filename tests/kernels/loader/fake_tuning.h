// SPDX-License-Identifier: Apache-2.0
// The fake device's DeviceOps::set_tuning: it keeps one line in its file and computes as before. It logs every GEMM, so
// that a test sees what was requested when.
#pragma once

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <string>
#include <utility>

#include "kernels/api/gemm.h"
#include "tests/kernels/loader/fake_cuda.h"

namespace dunlin::kernels {

class FakeTuning {
 public:
  // DeviceOptions::cublas_algorithm_cache; "": nothing to tune
  void set_path(std::string path) { path_ = std::move(path); }

  bool Set(bool on, std::string* notice) {
    if (path_.empty()) return false;
    on_ = on;
    std::string text;
    std::ifstream file(path_);
    std::getline(file, text);
    if (on && !text.empty() && text != kFakeAlgorithms) *notice = path_ + " is ignored: " + text;
    if (!on) std::ofstream(path_) << kFakeAlgorithms;
    return on;
  }

  void Note(const GemmParams& params) const {
    const char* file = std::getenv(kFakeProductsFile);
    if (file == nullptr) return;
    std::ofstream(file, std::ios::app) << params.num_rows << " " << params.decode_rows << " " << on_ << "\n";
  }

 private:
  std::string path_;
  std::atomic<bool> on_{false};
};

}  // namespace dunlin::kernels

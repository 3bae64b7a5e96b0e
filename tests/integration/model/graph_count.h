// SPDX-License-Identifier: Apache-2.0
// Counts the graphs that the fake device launches while it lives.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "tests/kernels/loader/fake_cuda.h"

namespace dunlin::engine {

class GraphCount {
 public:
  GraphCount() { setenv(kernels::kFakeGraphsFile, file_.c_str(), 1); }
  ~GraphCount() {
    unsetenv(kernels::kFakeGraphsFile);
    std::remove(file_.c_str());
  }
  GraphCount(const GraphCount&) = delete;
  GraphCount& operator=(const GraphCount&) = delete;

  // Numbers of operations of those launched.
  std::vector<int> sizes() const {
    std::ifstream file(file_);
    std::vector<int> found;
    for (int size = 0; file >> size;) found.push_back(size);
    return found;
  }
  int64_t launched() const { return static_cast<int64_t>(sizes().size()); }

 private:
  const std::string file_ = "/tmp/dunlin_graphs_" + std::to_string(getpid());
};

}  // namespace dunlin::engine

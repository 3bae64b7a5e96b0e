// SPDX-License-Identifier: Apache-2.0
// The project's own source files, as the style tests read them.
#pragma once

#include <string>
#include <vector>

namespace dunlin::style {

struct SourceFile {
  std::string path;  // relative to the repository root
  std::vector<std::string> lines;
};

// Every .h, .cc, .cu, .cuh and .rs file below kernels, engine, server, tools and tests; build trees are not there.
std::vector<SourceFile> ReadSourceTree();

}  // namespace dunlin::style

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

// Every .h, .cc, .cu, .cuh and .rs file below kernels, engine, text, server, tools and tests, read once; build trees
// are not there.
const std::vector<SourceFile>& SourceTree();

// Every file of the repository, relative to its root and sorted. Build trees and .git are left out.
std::vector<std::string> ListTree();

}  // namespace dunlin::style

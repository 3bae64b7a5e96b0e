// SPDX-License-Identifier: Apache-2.0
#include "tests/style/source_tree.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>

namespace dunlin::style {

namespace {

std::vector<SourceFile> ReadFiles() {
  namespace fs = std::filesystem;
  static const std::set<std::string> kExtensions = {".h", ".cc", ".cu", ".cuh", ".rs"};
  const fs::path root = DUNLIN_SOURCE_DIR;
  std::vector<SourceFile> files;
  for (const char* folder : {"kernels", "engine", "text", "server", "tools", "tests"}) {
    for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
      const std::string path = fs::relative(entry.path(), root).string();
      if (!entry.is_regular_file() || kExtensions.count(entry.path().extension().string()) == 0) continue;
      if (path.find("/target/") != std::string::npos) continue;
      SourceFile file{path, {}};
      std::ifstream stream(entry.path());
      for (std::string line; std::getline(stream, line);) file.lines.push_back(line);
      files.push_back(std::move(file));
    }
  }
  std::sort(files.begin(), files.end(), [](const auto& a, const auto& b) { return a.path < b.path; });
  return files;
}

}  // namespace

const std::vector<SourceFile>& SourceTree() {
  static const std::vector<SourceFile> tree = ReadFiles();
  return tree;
}

std::vector<std::string> ListTree() {
  namespace fs = std::filesystem;
  static const std::set<std::string> kSkipped = {".git", "build", "target", "node_modules", "__pycache__", ".cache"};
  std::vector<std::string> paths;
  const fs::path root = DUNLIN_SOURCE_DIR;
  for (auto it = fs::recursive_directory_iterator(root); it != fs::recursive_directory_iterator(); ++it) {
    if (it->is_directory() && kSkipped.count(it->path().filename().string()) != 0) it.disable_recursion_pending();
    if (it->is_regular_file()) paths.push_back(fs::relative(it->path(), root).string());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

}  // namespace dunlin::style

// SPDX-License-Identifier: Apache-2.0
// A folder for parsers that take files alone; removed with its contents. Thread rule: one thread.
#pragma once

#include <string>
#include <string_view>

namespace dunlin::fuzz {

class ScratchDirectory {
 public:
  // In the system's folder for temporary files (TMPDIR).
  ScratchDirectory();
  ~ScratchDirectory();
  ScratchDirectory(const ScratchDirectory&) = delete;
  ScratchDirectory& operator=(const ScratchDirectory&) = delete;

  const std::string& path() const { return path_; }
  // Replaces a file by one of `bytes`, with zeros behind them, which take no memory, up to `size` if that is more.
  void Write(const std::string& name, std::string_view bytes, uint64_t size = 0) const;

 private:
  std::string path_;
};

}  // namespace dunlin::fuzz

// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/scratch_directory.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>

#include "tests/fuzz/fuzz_targets.h"

namespace dunlin::fuzz {

ScratchDirectory::ScratchDirectory() {
  path_ = (std::filesystem::temp_directory_path() / "dunlin_fuzz_XXXXXX").string();
  DUNLIN_FUZZ_CHECK(mkdtemp(path_.data()) != nullptr, "no folder for files; set TMPDIR");
}

ScratchDirectory::~ScratchDirectory() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

void ScratchDirectory::Write(const std::string& name, std::string_view bytes, uint64_t size) const {
  const int fd = open((path_ + "/" + name).c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  DUNLIN_FUZZ_CHECK(fd >= 0, "a file cannot be opened");
  DUNLIN_FUZZ_CHECK(write(fd, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()), "a write fails");
  if (size > bytes.size()) DUNLIN_FUZZ_CHECK(ftruncate(fd, static_cast<off_t>(size)) == 0, "a file cannot grow");
  close(fd);
}

void Fail(const char* file, int line, std::string_view what) {
  fprintf(stderr, "%s:%d: %.*s\n", file, line, static_cast<int>(what.size()), what.data());
  abort();
}

}  // namespace dunlin::fuzz

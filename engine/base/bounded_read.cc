// SPDX-License-Identifier: Apache-2.0
#include "engine/base/bounded_read.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <iterator>

#include "absl/strings/str_cat.h"

namespace dunlin::engine {
namespace {

constexpr size_t kPieceBytes = size_t{64} << 10;

struct FileKind {
  mode_t mode;
  const char* name;
};
constexpr FileKind kOtherKinds[] = {{S_IFDIR, "a directory"},
                                    {S_IFIFO, "a pipe"},
                                    {S_IFSOCK, "a socket"},
                                    {S_IFCHR, "a character device"},
                                    {S_IFBLK, "a block device"}};

absl::Status CannotRead(int error) {
  if (error == ENOENT || error == ENOTDIR) return absl::NotFoundError(std::strerror(error));
  return absl::DataLossError(std::strerror(error));
}

absl::Status CheckRegular(const struct stat& info) {
  if (S_ISREG(info.st_mode)) return absl::OkStatus();
  const auto* kind = std::find_if(std::begin(kOtherKinds), std::end(kOtherKinds),
                                  [&](const FileKind& row) { return row.mode == (info.st_mode & S_IFMT); });
  const char* name = kind == std::end(kOtherKinds) ? "something else" : kind->name;
  return absl::InvalidArgumentError(absl::StrCat("is ", name, ", not a regular file"));
}

absl::Status TooLarge(size_t limit_bytes) {
  return absl::InvalidArgumentError(absl::StrCat("has more than ", limit_bytes, " bytes"));
}

absl::StatusOr<std::string> ReadDescriptor(int fd, size_t limit_bytes) {
  struct stat info {};
  if (fstat(fd, &info) != 0) return CannotRead(errno);
  if (absl::Status other = CheckRegular(info); !other.ok()) return other;
  if (static_cast<uint64_t>(info.st_size) > limit_bytes) {
    return absl::InvalidArgumentError(absl::StrCat("has ", info.st_size, " bytes; limit is ", limit_bytes));
  }
  std::string text;
  while (text.size() <= limit_bytes) {
    const size_t size = text.size();
    text.resize(size + kPieceBytes);
    const ssize_t count = read(fd, text.data() + size, kPieceBytes);
    const int error = errno;
    text.resize(size + static_cast<size_t>(std::max<ssize_t>(count, 0)));
    if (count == 0) return text;
    if (count < 0 && error != EINTR) return CannotRead(error);
  }
  return TooLarge(limit_bytes);
}

}  // namespace

absl::StatusOr<std::string> ReadAtMost(size_t limit_bytes, std::istream* in) {
  std::string text;
  while (*in && text.size() <= limit_bytes) {
    const size_t size = text.size();
    text.resize(size + kPieceBytes);
    in->read(text.data() + size, kPieceBytes);
    text.resize(size + static_cast<size_t>(in->gcount()));
  }
  if (text.size() > limit_bytes) return TooLarge(limit_bytes);
  if (!in->eof()) return absl::DataLossError("cannot be read");
  return text;
}

// stat comes first, since opening a device may do something; O_NONBLOCK, since a pipe may have come meanwhile.
absl::StatusOr<std::string> ReadRegularFile(const std::string& path, size_t limit_bytes) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) return CannotRead(errno);
  if (absl::Status other = CheckRegular(info); !other.ok()) return other;
  const int fd = open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  if (fd < 0) return CannotRead(errno);
  absl::StatusOr<std::string> text = ReadDescriptor(fd, limit_bytes);
  close(fd);
  return text;
}

}  // namespace dunlin::engine

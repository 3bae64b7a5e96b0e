// SPDX-License-Identifier: Apache-2.0
#include "engine/base/file.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/direct_read.h"
#include "engine/base/string_view.h"

namespace dunlin::engine {
namespace {

constexpr size_t kMaxNameBytes = 255;           // NAME_MAX
constexpr size_t kReadBytes = size_t{1} << 30;  // below the 2 GiB that one pread moves at most

int64_t Nanoseconds(const timespec& time) {
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

FileIdentity Identity(const struct stat& info) {
  return {.device = info.st_dev,
          .inode = info.st_ino,
          .size = static_cast<uint64_t>(info.st_size),
          .mtime_ns = Nanoseconds(info.st_mtim),
          .ctime_ns = Nanoseconds(info.st_ctim)};
}

// The real path, or nothing with errno set.
std::optional<std::string> RealPath(const std::string& path) {
  const std::unique_ptr<char, decltype(&std::free)> resolved(realpath(path.c_str(), nullptr), &std::free);
  if (resolved == nullptr) return std::nullopt;
  return std::string(resolved.get());
}

// Opens a path without links under `directory_fd`. Fails if a component was replaced by a link after the check.
// Kernels before 5.6 and some container filters lack openat2; there only the last component is protected.
int OpenBeneath(int directory_fd, const char* relative) {
  constexpr int kFlags = O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC;
  open_how how{};
  how.flags = kFlags;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS;
  const auto fd = static_cast<int>(syscall(SYS_openat2, directory_fd, relative, &how, sizeof(how)));
  if (fd >= 0 || (errno != ENOSYS && errno != EPERM)) return fd;
  return openat(directory_fd, relative, kFlags);
}

// O_NOFOLLOW: the path is real, so a link was put there since.
int OpenFolderDescriptor(const std::string& real_path) {
  return open(real_path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

// What the paths inside a folder begin with.
std::string Base(const std::string& path) {
  return path == "/" ? path : path + "/";
}

absl::Status OpenError(std::string_view name, int error) {
  const std::string message = absl::StrCat(AbslView(name), ": ", std::strerror(error));
  return error == ENOENT ? absl::NotFoundError(message) : absl::InvalidArgumentError(message);
}

}  // namespace

bool IsPlainFileName(std::string_view name) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
           c == '-';
  };
  return !name.empty() && name.size() <= kMaxNameBytes && name[0] != '.' &&
         std::all_of(name.begin(), name.end(), allowed);
}

File::File(int fd, std::string name, FileIdentity identity) : fd_(fd), name_(std::move(name)), identity_(identity) {}

File::File(File&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), name_(std::move(other.name_)), identity_(other.identity_) {}

File& File::operator=(File&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(name_, other.name_);
  std::swap(identity_, other.identity_);
  return *this;
}

File::~File() {
  if (fd_ >= 0) close(fd_);
}

absl::Status File::ReadAt(uint64_t offset, std::span<std::byte> out) const {
  while (!out.empty()) {
    const ssize_t count = pread(fd_, out.data(), std::min(out.size(), kReadBytes), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return absl::DataLossError(absl::StrCat(name_, ": cannot read: ", std::strerror(errno)));
    if (count == 0) {
      return absl::DataLossError(absl::StrCat(name_, ": ends at byte ", offset, ", had ", identity_.size,
                                              " bytes when it was opened: it was changed while it was read"));
    }
    offset += static_cast<uint64_t>(count);
    out = out.subspan(static_cast<size_t>(count));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::byte*> File::ReadOnce(uint64_t offset, size_t bytes, PageBuffer* buffer) const {
  const uint64_t begin = offset / kPageBytes * kPageBytes;
  const size_t wanted = static_cast<size_t>(offset - begin) + bytes;
  const size_t whole_pages = (wanted + kPageBytes - 1) / kPageBytes * kPageBytes;
  if (!buffer->Reserve(whole_pages)) {
    return absl::ResourceExhaustedError(absl::StrCat(name_, ": no memory for ", whole_pages, " bytes to read into"));
  }
  const std::span<std::byte> out = buffer->bytes().first(whole_pages);
  if (IsCached(fd_, begin, wanted) || ReadDirect(fd_, begin, out) < wanted) {
    if (absl::Status status = ReadAt(begin, out.first(wanted)); !status.ok()) return status;
  }
  return out.data() + (offset - begin);
}

absl::Status File::CheckUnchanged() const {
  struct stat info {};
  if (fstat(fd_, &info) != 0) return absl::DataLossError(absl::StrCat(name_, ": ", std::strerror(errno)));
  if (Identity(info) == identity_) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat(name_, ": changed while it was read (", identity_.size, " bytes then, ", info.st_size, " now)"));
}

Directory::Directory(Root own, Root blobs) : own_(std::move(own)), blobs_(std::move(blobs)) {}

Directory::Directory(Directory&& other) noexcept
    : TextFiles(),
      own_{std::exchange(other.own_.fd, -1), std::move(other.own_.path)},
      blobs_{std::exchange(other.blobs_.fd, -1), std::move(other.blobs_.path)} {}

Directory::~Directory() {
  if (own_.fd >= 0) close(own_.fd);
  if (blobs_.fd >= 0) close(blobs_.fd);
}

absl::StatusOr<Directory> Directory::Open(const std::string& path) {
  if (path.find('\0') != std::string::npos) return absl::InvalidArgumentError("a path holds a NUL byte");
  const std::optional<std::string> real_path = RealPath(path);
  if (!real_path.has_value()) return OpenError(path, errno);
  const int fd = OpenFolderDescriptor(*real_path);
  if (fd < 0) return OpenError(path, errno);
  Root blobs;
  // A snapshot's files are links to ../../blobs/HASH. O_NOFOLLOW: a link in place of blobs could lead anywhere.
  const size_t repository = (*real_path + "/").rfind("/snapshots/");
  if (repository != std::string::npos) {
    blobs.path = real_path->substr(0, repository) + "/blobs";
    blobs.fd = OpenFolderDescriptor(blobs.path);
  }
  return Directory({fd, *real_path}, std::move(blobs));
}

const Directory::Root* Directory::RootOf(const std::string& real_path) const {
  for (const Root* root : {&own_, &blobs_}) {
    if (root->fd >= 0 && real_path.starts_with(Base(root->path))) return root;
  }
  return nullptr;
}

absl::StatusOr<File> Directory::OpenFile(std::string_view name) const {
  if (!IsPlainFileName(name)) {
    return absl::InvalidArgumentError(
        absl::StrCat("file name '", AbslView(name.substr(0, kMaxNameBytes)), "' is not one of [A-Za-z0-9._-]{1,255}"));
  }
  const std::optional<std::string> real_path = RealPath(Base(own_.path) + std::string(name));
  if (!real_path.has_value()) return OpenError(name, errno);
  const Root* root = RootOf(*real_path);
  if (root == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(AbslView(name),
                                                   ": a symbolic link that leaves the model directory (", "to ",
                                                   *real_path, "); copy the files instead"));
  }
  const int fd = OpenBeneath(root->fd, real_path->c_str() + Base(root->path).size());
  if (fd < 0) return OpenError(name, errno);
  File file(fd, std::string(name), FileIdentity{});
  struct stat info {};
  if (fstat(fd, &info) != 0) return OpenError(name, errno);
  if (!S_ISREG(info.st_mode)) return absl::InvalidArgumentError(absl::StrCat(AbslView(name), ": not a regular file"));
  file.identity_ = Identity(info);
  return file;
}

absl::StatusOr<std::string> Directory::ReadFile(std::string_view name, uint64_t limit_bytes) const {
  absl::StatusOr<File> file = OpenFile(name);
  if (!file.ok()) return file.status();
  if (file->size() > limit_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(AbslView(name), ": has ", file->size(), " bytes; limit is ", limit_bytes));
  }
  std::string text(file->size(), '\0');
  if (absl::Status status = file->ReadAt(0, std::as_writable_bytes(std::span(text))); !status.ok()) return status;
  if (absl::Status status = file->CheckUnchanged(); !status.ok()) return status;
  return text;
}

absl::StatusOr<std::unique_ptr<TextFiles>> Directory::OpenFolder(std::string_view name) const {
  if (!IsPlainFileName(name)) {
    return absl::InvalidArgumentError(absl::StrCat("folder name '", AbslView(name.substr(0, kMaxNameBytes)),
                                                   "' is not one of [A-Za-z0-9._-]{1,255}"));
  }
  const std::string path = Base(own_.path) + std::string(name);
  absl::StatusOr<Directory> folder = Open(path);
  if (!folder.ok()) return folder.status();
  if (folder->path() != path) return absl::InvalidArgumentError(absl::StrCat(AbslView(name), " is a symbolic link"));
  return std::make_unique<Directory>(*std::move(folder));
}

absl::StatusOr<std::vector<std::string>> Directory::List(std::string_view suffix, size_t limit) const {
  const std::unique_ptr<DIR, int (*)(DIR*)> stream(opendir(own_.path.c_str()), &closedir);
  if (stream == nullptr) return OpenError(own_.path, errno);
  std::vector<std::string> names;
  while (const dirent* entry = readdir(stream.get())) {
    const std::string_view name = entry->d_name;
    if (!name.ends_with(suffix) || !IsPlainFileName(name)) continue;
    if (names.size() == limit) {
      return absl::ResourceExhaustedError(
          absl::StrCat(own_.path, ": more than ", limit, " files named *", AbslView(suffix)));
    }
    names.emplace_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

bool Directory::Has(std::string_view name) const {
  struct stat info {};
  return fstatat(own_.fd, std::string(name).c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0;
}

absl::StatusOr<std::string> MemoryFiles::ReadFile(std::string_view name, uint64_t limit_bytes) const {
  const auto found = texts_.find(name);
  if (found == texts_.end()) return absl::NotFoundError(absl::StrCat(AbslView(name), ": No such text"));
  if (found->second.size() <= limit_bytes) return found->second;
  return absl::InvalidArgumentError(
      absl::StrCat(AbslView(name), ": has ", found->second.size(), " bytes; limit is ", limit_bytes));
}

absl::StatusOr<std::unique_ptr<TextFiles>> MemoryFiles::OpenFolder(std::string_view name) const {
  const std::string prefix = std::string(name) + "/";
  std::map<std::string, std::string, std::less<>> inside;
  for (const auto& [path, text] : texts_) {
    if (path.starts_with(prefix)) inside.emplace(path.substr(prefix.size()), text);
  }
  if (inside.empty()) return absl::NotFoundError(absl::StrCat(AbslView(name), ": No such folder"));
  return std::make_unique<MemoryFiles>(std::move(inside));
}

}  // namespace dunlin::engine

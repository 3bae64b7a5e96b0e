// SPDX-License-Identifier: Apache-2.0
// Reads regular files inside one directory, and nothing else: the only access to model directories.
//
// A file is named by one path component, [A-Za-z0-9._-], not starting with '.'. Symbolic links are followed only while
// they stay inside the directory's real path, or lead from a snapshot of Hugging Face's cache (REPO/snapshots/REVISION,
// or a folder in it) to REPO/blobs. Pipes, devices and directories are refused without blocking.
// Nothing is mapped: data is copied with pread, so that a file cut short gives an error instead of SIGBUS.
// Large data that is read once need not go through the page cache: ReadOnce.
// Thread rule: const functions from any thread.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/base/page_buffer.h"

namespace dunlin::engine {

// Distinguishes two states of a file.
struct FileIdentity {
  dev_t device = 0;
  ino_t inode = 0;
  uint64_t size = 0;  // bytes
  int64_t mtime_ns = 0;
  int64_t ctime_ns = 0;
  friend bool operator==(const FileIdentity&, const FileIdentity&) = default;
};

// An open regular file, read-only.
class File {
 public:
  File(File&& other) noexcept;
  File& operator=(File&& other) noexcept;
  ~File();

  const std::string& name() const { return name_; }
  uint64_t size() const { return identity_.size; }  // at opening

  // Fills `out` from `offset`. DATA_LOSS when the file ends first (it was cut short) or cannot be read.
  absl::Status ReadAt(uint64_t offset, std::span<std::byte> out) const;
  // For bytes that are read once: from the page cache if it has them, else past it (direct_read.h), else as
  // ReadAt. Returns where in `buffer` they begin. DATA_LOSS as ReadAt, RESOURCE_EXHAUSTED without memory for the
  // buffer.
  absl::StatusOr<std::byte*> ReadOnce(uint64_t offset, size_t bytes, PageBuffer* buffer) const;
  // DATA_LOSS when size or times differ from those at opening. A write in the clock tick of the opening (4 ms before
  // Linux 6.13) that keeps the size goes unseen.
  absl::Status CheckUnchanged() const;

 private:
  friend class Directory;
  File(int fd, std::string name, FileIdentity identity);

  int fd_ = -1;
  std::string name_;
  FileIdentity identity_;
};

class Directory {
 public:
  // NOT_FOUND when there is none; INVALID_ARGUMENT when it is something else or unreadable.
  static absl::StatusOr<Directory> Open(const std::string& path);
  Directory(Directory&& other) noexcept;
  ~Directory();

  // Real path, links resolved.
  const std::string& path() const { return own_.path; }

  // NOT_FOUND when it does not exist; INVALID_ARGUMENT for a name outside the rule, a link that leads elsewhere,
  // anything but a regular file, or a file without read permission. The message names the file.
  absl::StatusOr<File> OpenFile(std::string_view name) const;
  // The whole of a file of at most `limit_bytes`; INVALID_ARGUMENT when it is larger, DATA_LOSS when it changes.
  absl::StatusOr<std::string> ReadFile(std::string_view name, uint64_t limit_bytes) const;
  // Entries whose name ends in `suffix`, sorted, at most `limit` (RESOURCE_EXHAUSTED beyond).
  absl::StatusOr<std::vector<std::string>> List(std::string_view suffix, size_t limit) const;
  // Whether an entry of that name exists, of whatever kind.
  bool Has(std::string_view name) const;

 private:
  // A folder whose files may be opened, by its real path. No fd: there is none.
  struct Root {
    int fd = -1;
    std::string path;
  };
  Directory(Root own, Root blobs);
  // The root that holds a real path; null: none does.
  const Root* RootOf(const std::string& real_path) const;

  Root own_;
  Root blobs_;  // of the cache that the directory is a snapshot in
};

// Whether `name` follows the naming rule above.
bool IsPlainFileName(std::string_view name);

}  // namespace dunlin::engine

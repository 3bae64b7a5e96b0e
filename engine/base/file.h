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
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
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

// Named texts: the files of a directory, or texts that stand for such files.
// Thread rule: const functions from any thread.
class TextFiles {
 public:
  virtual ~TextFiles() = default;
  // The whole of a text of at most `limit_bytes`. NOT_FOUND when there is none; INVALID_ARGUMENT when it is larger.
  virtual absl::StatusOr<std::string> ReadFile(std::string_view name, uint64_t limit_bytes) const = 0;
  // Whether there is something of that name, of whatever kind.
  virtual bool Has(std::string_view name) const = 0;
  // The texts of a folder inside. NOT_FOUND when there is none; INVALID_ARGUMENT for a link.
  virtual absl::StatusOr<std::unique_ptr<TextFiles>> OpenFolder(std::string_view name) const = 0;

 protected:
  TextFiles() = default;
  TextFiles(const TextFiles&) = default;
  TextFiles& operator=(const TextFiles&) = default;
};

// Texts in memory. A name may begin with folders: "1_Pooling/config.json".
class MemoryFiles final : public TextFiles {
 public:
  explicit MemoryFiles(std::map<std::string, std::string, std::less<>> texts) : texts_(std::move(texts)) {}

  absl::StatusOr<std::string> ReadFile(std::string_view name, uint64_t limit_bytes) const override;
  bool Has(std::string_view name) const override { return texts_.contains(name); }
  absl::StatusOr<std::unique_ptr<TextFiles>> OpenFolder(std::string_view name) const override;

 private:
  std::map<std::string, std::string, std::less<>> texts_;
};

class Directory final : public TextFiles {
 public:
  // NOT_FOUND when there is none; INVALID_ARGUMENT when it is something else or unreadable.
  static absl::StatusOr<Directory> Open(const std::string& path);
  Directory(Directory&& other) noexcept;
  ~Directory() override;

  // Real path, links resolved.
  const std::string& path() const { return own_.path; }

  // NOT_FOUND when it does not exist; INVALID_ARGUMENT for a name outside the rule, a link that leads elsewhere,
  // anything but a regular file, or a file without read permission. The message names the file.
  absl::StatusOr<File> OpenFile(std::string_view name) const;
  // Errors of OpenFile; INVALID_ARGUMENT when it is larger, DATA_LOSS when it changes.
  absl::StatusOr<std::string> ReadFile(std::string_view name, uint64_t limit_bytes) const override;
  absl::StatusOr<std::unique_ptr<TextFiles>> OpenFolder(std::string_view name) const override;
  // Entries whose name ends in `suffix`, sorted, at most `limit` (RESOURCE_EXHAUSTED beyond).
  absl::StatusOr<std::vector<std::string>> List(std::string_view suffix, size_t limit) const;
  bool Has(std::string_view name) const override;

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

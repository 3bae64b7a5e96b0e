// SPDX-License-Identifier: Apache-2.0
// The file of a server's keys: read at start, and again when it changes. A file that is broken or gone changes nothing:
// the keys of before stay in force. Thread rule: one thread at a time.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/access/access_control.h"

namespace dunlin::server {

// The text of a key file: a regular file of at most kMaxKeyFileBytes. Errors: NOT_FOUND, INVALID_ARGUMENT, DATA_LOSS
// (it changes while it is read), with the path.
absl::StatusOr<std::string> ReadKeyFile(const std::string& path);

class KeyFile {
 public:
  // access outlives this object.
  KeyFile(std::string path, AccessControl* access) : path_(std::move(path)), access_(access) {}

  // Reads the file if it is another one, or has other contents, than at the last reading; at first in any case. Its
  // keys are then in force. Nothing: there was nothing new. Errors, once for each change: as ReadKeyFile and
  // KeySet::Parse.
  std::optional<absl::Status> ReadIfChanged();

  const std::string& path() const { return path_; }

 private:
  struct Stamp {
    dev_t device = 0;
    ino_t inode = 0;
    int64_t size = -1;  // bytes; -1: there is no file
    int64_t mtime_ns = 0;
    int64_t ctime_ns = 0;
    friend bool operator==(const Stamp&, const Stamp&) = default;
  };
  Stamp StampNow() const;
  absl::Status Read(const std::string& text);

  const std::string path_;
  AccessControl* const access_;
  std::optional<Stamp> stamp_;     // of the last reading; unset: read at the next call
  std::optional<KeyDigest> last_;  // of the text that was read last
};

}  // namespace dunlin::server

// SPDX-License-Identifier: Apache-2.0
// Texts that the user of a command names: files, pipes, the standard input; and files that a config names. Model
// directories are read by file.h.
#pragma once

#include <cstddef>
#include <istream>
#include <string>

#include "absl/status/statusor.h"

namespace dunlin::engine {

inline constexpr size_t kMaxNamedTextBytes = size_t{64} << 20;

// What the stream still has. INVALID_ARGUMENT "has more than ... bytes", DATA_LOSS "cannot be read": a directory, say.
absl::StatusOr<std::string> ReadAtMost(size_t limit_bytes, std::istream* in);

// The whole of a regular file, through links. Nothing else is opened, because a pipe would be waited for, and a device
// may have no end. Errors say what the file is or has: NOT_FOUND "No such file or directory"; INVALID_ARGUMENT "is a
// pipe, not a regular file", "has 5 bytes; limit is 4"; DATA_LOSS with the system's reason.
absl::StatusOr<std::string> ReadRegularFile(const std::string& path, size_t limit_bytes);

}  // namespace dunlin::engine

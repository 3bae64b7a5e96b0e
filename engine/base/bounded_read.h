// SPDX-License-Identifier: Apache-2.0
// Texts that the user of a command names: files, pipes, the standard input. Model directories are read by file.h.
#pragma once

#include <cstddef>
#include <istream>
#include <string>

#include "absl/status/statusor.h"

namespace dunlin::engine {

inline constexpr size_t kMaxNamedTextBytes = size_t{64} << 20;

// What the stream still has. INVALID_ARGUMENT "has more than ... bytes", DATA_LOSS "cannot be read": a directory, say.
absl::StatusOr<std::string> ReadAtMost(size_t limit_bytes, std::istream* in);

}  // namespace dunlin::engine

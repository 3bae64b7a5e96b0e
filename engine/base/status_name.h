// SPDX-License-Identifier: Apache-2.0
// The upper-case names of gRPC status codes, as logs, metrics and error messages spell them.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace dunlin::engine {

// "OK", "INVALID_ARGUMENT", ...; absl and gRPC number the codes alike.
inline std::string StatusName(absl::StatusCode code) {
  return absl::StatusCodeToString(code);
}

}  // namespace dunlin::engine

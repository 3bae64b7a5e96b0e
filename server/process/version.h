// SPDX-License-Identifier: Apache-2.0
// The server's version, as reported by `dunlin --version` and dunlin_build_info.
#pragma once

namespace dunlin::server {

inline constexpr char kVersion[] = "0.1.0";

}  // namespace dunlin::server

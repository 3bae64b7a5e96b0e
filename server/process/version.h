// SPDX-License-Identifier: Apache-2.0
// The server's version, as `dunlin --version` and dunlin_build_info tell it.
#pragma once

namespace dunlin::server {

inline constexpr char kVersion[] = "0.1.0";

}  // namespace dunlin::server

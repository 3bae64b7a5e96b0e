// SPDX-License-Identifier: Apache-2.0
// Debian's absl (20220623) is built with its own string_view, which does not convert to or from std::string_view.
// Our code says std::string_view; these two lines are the only crossing.
#pragma once

#include <string_view>

#include "absl/strings/string_view.h"

namespace dunlin::engine {

inline absl::string_view AbslView(std::string_view text) {
  return {text.data(), text.size()};
}
inline std::string_view StdView(absl::string_view text) {
  return {text.data(), text.size()};
}

}  // namespace dunlin::engine

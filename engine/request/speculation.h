// SPDX-License-Identifier: Apache-2.0
// How config, messages and commands write Request::max_drafts: "off" or "0", "auto", or the most drafts of a step. Pure
// functions, any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "engine/request/types.h"

namespace dunlin::engine {

inline constexpr char kSpeculationWords[] = "off, auto, or a number from 0 to 16";
static_assert(kMaxDrafts == 16, "the limit that kSpeculationWords names");

// Empty for any other word.
constexpr std::optional<int32_t> MaxDraftsNamed(std::string_view word) {
  if (word == "off" || word == "0") return 0;
  if (word == "auto") return kAutoDrafts;
  if (word.empty() || word.size() > 2 || word.front() == '0') return std::nullopt;
  int32_t number = 0;
  for (const char c : word) {
    if (c < '0' || c > '9') return std::nullopt;
    number = number * 10 + (c - '0');
  }
  if (number > kMaxDrafts) return std::nullopt;
  return number;
}

}  // namespace dunlin::engine

// SPDX-License-Identifier: Apache-2.0
// Strict JSON for configs and model files: bounded, no duplicate keys, errors instead of exceptions.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace dunlin::engine {

inline constexpr int kMaxJsonDepth = 32;

// Parses one JSON object. `where` starts every message. INVALID_ARGUMENT: not JSON (NaN and Infinity are not), invalid
// UTF-8, anything after the value, not an object, deeper than kMaxJsonDepth, or a key twice in one object.
// The caller bounds the size of `text`; memory is about 20 times that in the worst case.
absl::StatusOr<nlohmann::json> ParseJsonObject(std::string_view text, std::string_view where);

// About the most memory that the tree of a JSON text takes, its strings apart: a text of 3 bytes a value makes 40 times
// as much. Looks at the text alone, at some 1 GB/s, and does not check it.
size_t JsonTreeBytes(std::string_view text);

// The errors of ParseJsonObject for depth and keys, of a text that may have comments. What is not JSON passes.
absl::Status CheckCommentedJson(std::string_view text, std::string_view where);

// As ParseJsonObject, of a file that Python's json module wrote: NaN, Infinity and -Infinity are numbers.
absl::StatusOr<nlohmann::json> ParsePythonJsonObject(std::string_view text, std::string_view where);

// Whether more than max_depth lists and objects are open at once somewhere in the text, up to its first fault. Builds
// nothing: what is not deeper is parsed afterwards. O(bytes).
bool IsNestedDeeper(std::string_view text, int max_depth);

}  // namespace dunlin::engine

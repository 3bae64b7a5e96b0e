// SPDX-License-Identifier: Apache-2.0
// Files of the commands that write a model directory from another one.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <system_error>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/request/types.h"
#include "text/tokenizer.h"

namespace dunlin::server {

// Copies the regular files of a model directory whose names are wanted into `out`, which is made. Existing files are
// kept, and nothing is copied where both are one directory. After an error, what was copied before is whole.
std::error_code CopyModelFiles(const std::filesystem::path& from, const std::filesystem::path& out,
                               const std::function<bool(const std::string& name)>& wanted);

// At most the first `max_tokens` tokens of a UTF-8 file, each below vocab_size: the rows of the model's embedding.
// NOT_FOUND names the option; otherwise as Tokenizer::Encode.
absl::StatusOr<std::vector<engine::TokenId>> ReadTokens(const text::Tokenizer& tokenizer, int64_t vocab_size,
                                                        const char* option, const std::string& path,
                                                        int64_t max_tokens);

}  // namespace dunlin::server

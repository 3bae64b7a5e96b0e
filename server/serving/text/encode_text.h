// SPDX-License-Identifier: Apache-2.0
// Tokenises a client's text within the core's budget. For the text pool: takes time linear in the text and may wait.
#pragma once

#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/request/types.h"
#include "server/serving/core/serving_core.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace dunlin::server {

// A piece of at most this size needs no share of the budget: it takes at most 8 MiB for some 20 ms.
inline constexpr size_t kUnbudgetedBytes = size_t{64} << 10;

// As Tokenizer::Encode.
absl::StatusOr<std::vector<engine::TokenId>> EncodeText(const ServingCore& core, const text::Tokenizer& tokenizer,
                                                        std::string_view text, const text::EncodeOptions& options,
                                                        bool* truncated = nullptr);

// As ChatTemplate::Encode; OUT_OF_RANGE if the chat's size alone shows that it has more than max_tokens.
absl::StatusOr<std::vector<engine::TokenId>> EncodeChat(const ServingCore& core, const text::Tokenizer& tokenizer,
                                                        const text::RenderedChat& chat, size_t max_tokens);

}  // namespace dunlin::server

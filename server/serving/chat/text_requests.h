// SPDX-License-Identifier: Apache-2.0
// A model's tokenizer and chat template as a service. Pure functions that take time linear in their input, so they
// belong on the text pool. Errors: INVALID_ARGUMENT (a field), NOT_FOUND (the model), FAILED_PRECONDITION (no
// tokenizer).
#pragma once

#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/request/types.h"
#include "server/serving/chat/chat_prompt.h"
#include "server/serving/core/serving_core.h"
#include "server/serving/record/client_field.h"
#include "text/tokenizer.h"

namespace dunlin::server {

absl::StatusOr<std::vector<engine::TokenId>> Tokenise(const ServingCore& core, const Principal& caller,
                                                      const std::string& model, const std::string& text,
                                                      const text::EncodeOptions& options, const FieldNames& names);

// Refuses a text of more than half of limits.max_message_bytes.
absl::StatusOr<std::string> Detokenise(const ServingCore& core, const Principal& caller, const std::string& model,
                                       std::span<const engine::TokenId> ids, bool keep_special_tokens,
                                       const FieldNames& names);

// The prompt that a Generate call with this chat has. Errors also as MakeChatPrompt.
absl::StatusOr<ChatPrompt> ApplyChatTemplate(const ServingCore& core, const Principal& caller, const std::string& model,
                                             const text::ChatInput& chat, const FieldNames& names);

}  // namespace dunlin::server

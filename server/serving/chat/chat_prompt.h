// SPDX-License-Identifier: Apache-2.0
// A chat to the prompt that its model reads. For text pool threads: rendering may take seconds.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/request/types.h"
#include "server/models/served_model.h"
#include "server/serving/core/serving_core.h"
#include "server/serving/images/chat_images.h"
#include "server/serving/record/client_field.h"
#include "text/chat_template.h"

namespace dunlin::server {

struct ChatPrompt {
  std::string text;
  std::vector<engine::TokenId> token_ids;  // of images those that stand for their rows
  std::vector<PromptImage> images;
};

// FAILED_PRECONDITION, with what to set, if the model has no usable chat template or no tokenizer.
absl::Status CheckChats(const ServedModel& model);

// Checks, renders and encodes. Errors: as CheckChats; INVALID_ARGUMENT (a field; an image; special tokens that the
// model's configuration does not let requests parse; a bound; what the template raises); OUT_OF_RANGE as EncodeChat.
absl::StatusOr<ChatPrompt> MakeChatPrompt(const ServingCore& core, const ServedModel& model,
                                          const text::ChatInput& chat, size_t max_tokens, const FieldNames& names);

}  // namespace dunlin::server

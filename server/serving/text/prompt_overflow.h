// SPDX-License-Identifier: Apache-2.0
// The refusal of a prompt that is too long: an INVALID_FIELD like others, which also carries the counts, because
// clients recognise it by its words and recover: they shorten the chat, or take another model. Each front says it in
// its API's words. Pure functions, any thread.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "server/serving/record/client_field.h"

namespace dunlin::server {

struct PromptOverflow {
  int64_t context_tokens = 0;     // of the model: prompt and output
  int64_t max_prompt_tokens = 0;  // the longest prompt that is taken, >= 0
  int64_t prompt_tokens = 0;      // of the refused one
  bool at_least = false;          // prompt_tokens were counted, and there are more
  bool operator==(const PromptOverflow&) const = default;
};

// InvalidField(violation, names) with the counts.
absl::Status PromptOverflowed(const engine::Violation& violation, const FieldNames& names,
                              const PromptOverflow& overflow);
// None if the status is of another kind.
std::optional<PromptOverflow> OverflowOf(const absl::Status& status);

}  // namespace dunlin::server

// SPDX-License-Identifier: Apache-2.0
// Turns a client's request into requests for the engine: model, bounds, tokens, profile; all but the constraint of
// structured output, which takes its own time (pending_constraint.h).
// Pure except for drawn ids and seeds. Thread rule: any thread; takes time linear in the length of the prompt, and for
// a chat what its template takes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "engine/request/types.h"
#include "server/serving/core/serving_core.h"
#include "server/serving/images/chat_images.h"
#include "server/serving/output/output_text.h"
#include "server/serving/record/client_field.h"
#include "server/serving/record/client_request.h"
#include "server/serving/record/request_record.h"
#include "text/grammar_source.h"

namespace dunlin::server {

struct GenerationPlan {
  ModelLease model;
  engine::Request request;  // of every output; arrival, deadline and output_index not set
  int32_t num_outputs = 1;
  std::optional<int32_t> clamped_max_tokens;   // that the client asked for more than
  int32_t reserved_tokens = 0;                 // of each output, from the quota of the caller's key
  bool no_output = false;                      // max_tokens is 0: the token that ends the prompt's step is dropped
  bool prompt_token_ids = false;               // the first chunk has them
  std::vector<PromptImage> images;             // whose rows request.rows is to be made of
  std::vector<engine::TokenId> shown_prompt;   // with images: the prompt without row tokens
  OutputText::Options output_text;             // of every output; prompt_tail points into prompt()
  std::optional<text::GrammarSource> grammar;  // that request.constraint is to be made of
  size_t constraint_bytes = 0;                 // of request.constraint, and of each output's state
  const FieldNames* field_names = nullptr;     // of the client

  // As clients see it.
  const std::vector<engine::TokenId>& prompt() const { return images.empty() ? request.prompt : shown_prompt; }
};

// Resolves the model, checks every field against its bounds, tokenises the prompt and resolves the profile. Fills in
// *record (model, profile, sizes) as far as it gets, also on error. REQUIRES: the request's id is resolved.
// Errors: INVALID_ARGUMENT (a field), NOT_FOUND (the model), FAILED_PRECONDITION (an encoder, text without a
// tokenizer, a chat without a chat template, the profile), RESOURCE_EXHAUSTED (the output would be complete after the
// call's deadline; before the prompt is tokenised).
absl::StatusOr<GenerationPlan> PlanGeneration(ClientRequest request, const ServingCore& core, RequestRecord* record,
                                              engine::TimeNs deadline = engine::kNoDeadline);

}  // namespace dunlin::server

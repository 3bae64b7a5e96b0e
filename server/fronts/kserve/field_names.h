// SPDX-License-Identifier: Apache-2.0
// The names of request fields in messages of the Open Inference Protocol. Fields with the same name in the core are
// omitted.
#pragma once

#include "server/serving/record/client_field.h"

namespace dunlin::server::kserve {

inline constexpr FieldNames kInferFieldNames = [] {
  using enum engine::RequestField;
  using enum ClientField;
  return FieldNames({
      {kModel, "model_name"},
      {kRequestId, "id"},
      {kPrompt, "text_input"},
      {kPromptText, "text_input"},
      {kPromptTokens, "text_input"},
      {kPromptToken, "text_input[*]"},
      {kEcho, "exclude_input_in_output"},
      {kInputs, "text_input"},
      {kInput, "text_input[*]"},
      {kInputText, "text_input[*]"},
      {kInputTokens, "text_input[*]"},
      {kInputToken, "text_input[*]"},
      {kJsonSchema, "guided_decoding_guide"},
      {kRegex, "guided_decoding_guide"},
      {kGrammar, "guided_decoding_guide"},
  });
}();

}  // namespace dunlin::server::kserve

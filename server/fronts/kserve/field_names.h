// SPDX-License-Identifier: Apache-2.0
// The names of request fields in messages of the Open Inference Protocol. Fields with the same name in the core are
// omitted.
#pragma once

#include "engine/request/request_field.h"

namespace dunlin::server::kserve {

inline constexpr engine::FieldNames kInferFieldNames({
    {engine::RequestField::kModel, "model_name"},
    {engine::RequestField::kRequestId, "id"},
    {engine::RequestField::kPrompt, "text_input"},
    {engine::RequestField::kPromptText, "text_input"},
    {engine::RequestField::kPromptTokens, "text_input"},
    {engine::RequestField::kPromptToken, "text_input[*]"},
    {engine::RequestField::kEcho, "exclude_input_in_output"},
    {engine::RequestField::kInputs, "text_input"},
    {engine::RequestField::kInput, "text_input[*]"},
    {engine::RequestField::kInputText, "text_input[*]"},
    {engine::RequestField::kInputTokens, "text_input[*]"},
    {engine::RequestField::kInputToken, "text_input[*]"},
    {engine::RequestField::kJsonSchema, "guided_decoding_guide"},
    {engine::RequestField::kRegex, "guided_decoding_guide"},
    {engine::RequestField::kGrammar, "guided_decoding_guide"},
});

}  // namespace dunlin::server::kserve

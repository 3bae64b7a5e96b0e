// SPDX-License-Identifier: Apache-2.0
// Whether an encoder can serve a call. Pure functions; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "engine/encoder/encode_call.h"
#include "engine/model/spec/image_spec.h"
#include "engine/request/request_field.h"

namespace dunlin::engine {

// Limits of a call; const after the engine's construction.
struct EncodeLimits {
  int32_t vocab_size = 0;
  int32_t hidden_dim = 0;
  int32_t num_labels = 0;         // of a sequence classifier; 0: it cannot classify
  ImageSpec image = {};           // of an encoder of images
  int32_t max_input_tokens = 0;   // of one input, or patches of an image
  int64_t max_queued_tokens = 0;  // of one call: a longer one could never be queued
};

// The first field of the call that this encoder cannot take; none when the call may run.
std::optional<Violation> CheckEncode(const EncodeRequest& request, const EncodeLimits& limits);

// "inputs[3] has 600 tokens; limit is 1 to 512 (models[].max_context_tokens)"
std::optional<Violation> CheckInputLength(size_t input, int64_t num_tokens, const EncodeLimits& limits);

// How many tokens of a text that is too long are counted, so that most refusals have the exact number.
int64_t MaxCountedInputTokens(const EncodeLimits& limits);

// Of a text with more tokens than that: "has more than 1024 tokens".
Violation InputTooLong(size_t input, const EncodeLimits& limits);

// "dimensions is 37; limit is [1, 36]"
std::optional<Violation> CheckDimensions(int32_t dimensions, const EncodeLimits& limits);

// OK, or INVALID_ARGUMENT with the field's plain name, value and limit.
absl::Status ValidateEncode(const EncodeRequest& request, const EncodeLimits& limits);

}  // namespace dunlin::engine

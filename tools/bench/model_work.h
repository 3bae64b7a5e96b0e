// SPDX-License-Identifier: Apache-2.0
// The profile a model bench runs, and the operations and bytes that its steps need at least, from the config alone.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "engine/model/model.h"
#include "engine/model/spec/model_config.h"
#include "engine/request/options.h"
#include "engine/request/types.h"
#include "tools/bench/record.h"

namespace dunlin::tools::bench {

// The profile of a precision and a backend (none: AUTO) on the model's device; FAILED_PRECONDITION with every reason
// where the device does not support it.
absl::StatusOr<engine::ExecutionProfile> ProfileOf(const engine::Model& model, engine::Precision precision,
                                                   std::optional<engine::AttentionBackend> backend);
// For messages: the backend's name, or "auto".
std::string NameOf(std::optional<engine::AttentionBackend> backend);

// Default options, but with this attention backend as the only one enabled.
engine::EngineOptions OptionsWithOnly(engine::AttentionBackend backend);

// Pages of all groups that a sequence of `tokens` tokens takes.
int32_t PagesOf(const engine::ModelConfig& config, const engine::ExecutionProfile& profile, int32_t tokens);

// OptionsWithOnly the profile's backend, for `batch` sequences of `tokens` tokens: their steps, and memory for their
// pages and states. Of a recurrent model twice as much, because the runtime gives some of it to states that a cache
// would keep.
engine::EngineOptions OptionsFor(const engine::ModelConfig& config, const engine::ExecutionProfile& profile,
                                 int32_t batch, int32_t tokens);

// Parameters of the matrices that one token is multiplied with, without the language-model head. Of the experts of a
// layer these are the chosen ones; what many tokens read of them is counted as if routers preferred none.
double LayerParameters(const engine::ModelConfig& config);

// One sequence's tokens [first, first + count). Only the last `sampled` go through the head and, in a decoder, on after
// the K and V of ModelConfig::last_storing_layer. Bytes: the weights once; keys, values and states, written by the same
// call, are not counted.
Work PrefillWork(const engine::ModelConfig& config, const engine::ExecutionProfile& profile, int32_t first,
                 int32_t count, int32_t sampled);

// A whole prompt in steps of at most `step_tokens`, one token sampled at its end.
Work PromptWork(const engine::ModelConfig& config, const engine::ExecutionProfile& profile, int32_t prompt_tokens,
                int32_t step_tokens);

// One token of each of `sequences` sequences of `context` tokens. Bytes: the weights once, the keys and values, and
// states, which are read and written.
Work DecodeWork(const engine::ModelConfig& config, const engine::ExecutionProfile& profile, int32_t sequences,
                double context);

}  // namespace dunlin::tools::bench

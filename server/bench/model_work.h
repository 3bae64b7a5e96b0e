// What a bench of a model runs, and what its steps must do at least: operations and bytes, from its config alone.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "engine/model/model.h"
#include "engine/model/model_config.h"
#include "engine/types.h"
#include "server/bench/record.h"

namespace dunlin::server::bench {

// The profile of a precision and a backend on the model's device; FAILED_PRECONDITION with every reason where the
// device does not take it.
absl::StatusOr<engine::ExecutionProfile> ProfileOf(const engine::Model& model, engine::Precision precision,
                                                   engine::AttentionBackend backend);

// Parameters of the matrices that every token goes through, without the head.
double LayerParameters(const engine::ModelConfig& config);

// One sequence's tokens [first, first + count), the last `sampled` of which go through the head, and of a decoder alone
// through its last layer behind K and V. Bytes: the weights once; keys and values of the sequence are written by this
// very call and not counted.
Work PrefillWork(const engine::ModelConfig& config, const engine::ExecutionProfile& profile, int32_t first,
                 int32_t count, int32_t sampled);

// One token of each of `sequences` sequences of `context` tokens. Bytes: the weights once, and the keys and values.
Work DecodeWork(const engine::ModelConfig& config, const engine::ExecutionProfile& profile, int32_t sequences,
                double context);

}  // namespace dunlin::server::bench

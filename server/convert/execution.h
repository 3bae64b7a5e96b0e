// Execution profiles between the wire and the engine: one table per enum, and what a response says that runs.
#pragma once

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "dunlin/v1/execution.pb.h"
#include "engine/types.h"

namespace dunlin::server {

// UNSPECIFIED and AUTO are both an empty choice. Errors: INVALID_ARGUMENT (a number outside of its enum).
absl::StatusOr<engine::ExecutionChoice> ChoiceFromWire(const v1::ExecutionOptions& wire);

v1::Device ToWire(engine::DeviceKind device);
v1::AttentionBackend ToWire(engine::AttentionBackend backend);
v1::Precision ToWire(engine::Precision precision);
// With the recipe and the KV dtype that go with the precision.
v1::Execution ToWire(const engine::ExecutionProfile& profile);

}  // namespace dunlin::server

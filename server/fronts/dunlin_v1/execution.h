// SPDX-License-Identifier: Apache-2.0
// Translates execution profiles between dunlin.v1 and the engine. The wire enumerators are derived from the names in
// the tables of kernels/api: a new one takes only a row there and an enumerator in execution.proto. Any thread.
#pragma once

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "dunlin/v1/execution.pb.h"
#include "engine/request/types.h"
#include "server/serving/record/client_field.h"

namespace dunlin::server {

// UNSPECIFIED and AUTO both become an empty choice. Errors: INVALID_ARGUMENT (a number outside its enum).
absl::StatusOr<engine::ExecutionChoice> ChoiceFromWire(const v1::ExecutionOptions& wire, const FieldNames& names);

v1::Device ToWire(engine::DeviceKind device);
v1::AttentionBackend ToWire(engine::AttentionBackend backend);
v1::Precision ToWire(engine::Precision precision);
// The profile, with the recipe and KV dtype of its precision.
v1::Execution ToWire(const engine::ExecutionProfile& profile);

}  // namespace dunlin::server

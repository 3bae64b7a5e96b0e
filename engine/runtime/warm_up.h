// SPDX-License-Identifier: Apache-2.0
// Runs a prompt in every precision through a model's layers and head before READY: where the device chooses GEMM
// algorithms by timing them, it does so here, and its code is loaded. Nothing else of it is kept.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "engine/model/model.h"
#include "engine/runtime/profiles.h"
#include "engine/runtime/step_buffers.h"

namespace dunlin::engine {

// Does nothing on a device without a choice of algorithms (Tuning). The prompt is as long as a step, the context and
// the pool allow; its K and V stay in the first pages, which are written again before they are read. *notice: as
// Tuning. INTERNAL as ForwardPass: the device can no longer be trusted.
absl::Status WarmUp(const Model& model, const ProfileTable& profiles, StepBuffers* buffers, std::string* notice);

}  // namespace dunlin::engine

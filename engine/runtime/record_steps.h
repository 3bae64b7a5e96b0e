// SPDX-License-Identifier: Apache-2.0
// Records decode steps before READY (StepGraphs), so that no request waits for it: every shape that a step of one token
// each is rounded up to, in every precision, as long as there is room. Each recording is launched once and compared
// with the operations that it holds.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "engine/model/model.h"
#include "engine/runtime/model_runtime.h"
#include "engine/runtime/profiles.h"

namespace dunlin::engine {

// Before the first step. The sequences are made up; their K and V lie in the first page of each group, which is written
// again before it is read. Nothing where the device has no graphs. An FP8 recipe whose scales come from requests is
// left to them. Where the device records none, or what it recorded has other bits, steps are enqueued operation by
// operation from then on. *notice is set to what should be logged of that, and of shapes that it did not record.
// INTERNAL as ModelRuntime::Launch: the device can no longer be trusted.
absl::Status RecordDecodeSteps(const Model& model, const ProfileTable& profiles, ModelRuntime* runtime,
                               std::string* notice);

}  // namespace dunlin::engine

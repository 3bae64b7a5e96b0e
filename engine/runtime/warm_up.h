// A prompt in every precision through a model's layers and head, before it serves: where the device chooses algorithms
// by time, it meets every product of a prompt here, and its code is loaded. Nothing of it is kept but the choices.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "engine/model/model.h"
#include "engine/runtime/profiles.h"
#include "engine/runtime/step_buffers.h"

namespace dunlin::engine {

// Does nothing on a device that has nothing to choose (Tuning). The prompt is as long as a step, the context and the
// pool allow; its keys and values are left in the first pages, which are written again before they are read.
// *notice: as Tuning. INTERNAL as ForwardPass: the device can no longer be trusted.
absl::Status WarmUp(const Model& model, const ProfileTable& profiles, StepBuffers* buffers, std::string* notice);

}  // namespace dunlin::engine

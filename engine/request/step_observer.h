// SPDX-License-Identifier: Apache-2.0
// How whoever runs an engine learns of its steps. Thread rule: called on the engine thread.
#pragma once

#include <cstdint>

#include "engine/request/types.h"

namespace dunlin::engine {

// What happened in one step, for histograms. Called on the engine thread; neither blocks nor allocates.
class StepObserver {
 public:
  virtual ~StepObserver() = default;
  // num_tokens: computed in the step. num_sequences: that had tokens in it; of an encoder its inputs.
  virtual void OnStep(int32_t num_tokens, int32_t num_sequences, TimeNs duration) = 0;
};

}  // namespace dunlin::engine

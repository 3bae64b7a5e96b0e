// SPDX-License-Identifier: Apache-2.0
// The divisors of rotary frequencies that some GGUF files hold as small tensors.
#pragma once

#include <cstddef>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/model/checkpoint/gguf/gguf_tensors.h"

namespace dunlin::engine {

// The `count` factors of a tensor of the file. INVALID_ARGUMENT, naming it: it is missing, has another type than F32 or
// another size, or a factor outside [0.001, limit].
absl::StatusOr<std::vector<float>> ReadGgufFactors(const GgufTensors& tensors, const char* name, size_t count,
                                                   float limit = 1e6F);

}  // namespace dunlin::engine

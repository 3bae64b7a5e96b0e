// SPDX-License-Identifier: Apache-2.0
// LoRA adapters of the demo model, written as PEFT saves them.
#pragma once

#include <cstdint>
#include <string>

namespace dunlin::integration {

// Random weights by the seed, large enough to change what the model says, for the attention's c_attn of every layer.
// Replaces what is in the folder. Returns the folder.
std::string WriteAdapter(const std::string& folder, uint64_t seed, int rank = 4);

}  // namespace dunlin::integration

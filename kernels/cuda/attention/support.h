// SPDX-License-Identifier: Apache-2.0
// What each backend supports on a CUDA device, by compute capability, and the reasons against the rest. Host code.
#pragma once

#include <string>
#include <vector>

#include "kernels/api/attention.h"

namespace dunlin::kernels::cuda {

// As DeviceOps::supports_attention, for compute capability sm_version (90: 9.0).
bool SupportsAttention(int sm_version, AttentionBackend backend, const AttentionTraits& traits,
                       std::vector<std::string>* reasons);

}  // namespace dunlin::kernels::cuda

// SPDX-License-Identifier: Apache-2.0
// What each backend supports on a CUDA device: what its kernels take, and the reasons against the rest. Host code.
#pragma once

#include <string>
#include <vector>

#include "kernels/api/attention.h"
#include "kernels/cuda/device/device_shape.h"

namespace dunlin::kernels::cuda {

// As DeviceOps::supports_attention. True: FindKernel has a row for each phase.
bool SupportsAttentionOn(const DeviceShape& device, AttentionBackend backend, const AttentionTraits& traits,
                         std::vector<std::string>* reasons);

}  // namespace dunlin::kernels::cuda

// SPDX-License-Identifier: Apache-2.0
// Which paged calls end in the output projection's input instead of FP32 rows (PagedAttentionParams::next). Host code.
#pragma once

#include "kernels/api/attention.h"
#include "kernels/cuda/device/device_shape.h"

namespace dunlin::kernels::cuda {

// As DeviceOps::attention_fuses: 16-bit rows without padding columns, which kernels would leave as they are, and
// without an amax, where the kernels of both phases write each output once.
bool RoundsOutputsOn(const DeviceShape& device, const PagedAttentionParams& params);

}  // namespace dunlin::kernels::cuda

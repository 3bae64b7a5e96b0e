// SPDX-License-Identifier: Apache-2.0
// The CPU device's sampling entries. Contract: kernels/api/sampling.h. Sample runs on the context's pool and returns
// when the work is done.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/api/sampling.h"
#include "kernels/api/status.h"
#include "kernels/cpu/context/context.h"

namespace dunlin::kernels::cpu {

size_t SampleWorkspace(const DeviceContext* context, int32_t num_rows, int32_t vocab_size);
KernelStatus Sample(DeviceContext* context, const SampleParams& params);
KernelStatus TakeDrawn(DeviceContext* context, const TakeDrawnParams& params);

}  // namespace dunlin::kernels::cpu

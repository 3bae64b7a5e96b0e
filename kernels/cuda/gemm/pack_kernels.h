// SPDX-License-Identifier: Apache-2.0
// Launchers of the packing of integer codes. Each enqueues one kernel on the stream; the sources are device memory.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/cuda/gemm/pack_codes.h"

namespace dunlin::kernels::cuda {

// `count` rows, of a weight in groups of 32 rounded from wide values: kInt8 or kInt4.
void LaunchRoundCodes(const PackSource& source, const CodedView& weight, int64_t count, cudaStream_t stream);
// `count` rows of a checkpoint's codes, in a format that holds them.
void LaunchCopyCodes(const CodedSource& source, const CodedView& weight, int64_t count, cudaStream_t stream);

}  // namespace dunlin::kernels::cuda

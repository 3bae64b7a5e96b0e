// SPDX-License-Identifier: Apache-2.0
// cudaStream_t for host code that is also compiled without a toolkit.
#pragma once

struct CUstream_st;

namespace dunlin::kernels::cuda {

using Stream = ::CUstream_st*;

}  // namespace dunlin::kernels::cuda

// SPDX-License-Identifier: Apache-2.0
// The scans over heads' states. Instantiations: 2 rules x 4 numbers of slices (WithScanSlices), 1 x 2 = 10.
#include "kernels/cuda/device/launchers.h"
#include "kernels/cuda/ops/launch_after.cuh"
#include "kernels/cuda/recurrent/checks.h"
#include "kernels/cuda/recurrent/scan_block.h"

namespace dunlin::kernels::cuda {
namespace {

// One block per sequence, head and 64 columns. A state of 128 rows is 64 registers of a thread: four blocks share a
// multiprocessor, of 256 rows two.
template <typename Rule, int kSlices>
__global__ void __launch_bounds__(kBlockThreads, kSlices > 4 ? 2 : 4)
    ScanStates(const __grid_constant__ typename Rule::Params params) {
  StartEarly();
  __shared__ typename ScanBlock<Rule, kSlices>::Memory shared;
  ScanBlock<Rule, kSlices>(params, blockIdx.x, &shared).Run();
}

template <typename Rule>
KernelStatus Scan(DeviceContext* context, const typename Rule::Params& params) {
  if (!Valid(params)) return KernelStatus::kInvalidArgument;
  const ScanShape shape = Rule::ShapeOf(params);
  if (shape.rows > kStateRowsMax) return KernelStatus::kUnsupported;
  if (context->failed) return KernelStatus::kDeviceError;
  if (params.num_sequences == 0) return KernelStatus::kOk;
  const auto blocks = static_cast<unsigned>(int64_t{params.num_sequences} * shape.heads * ScanParts(shape));
  WithScanSlices<Rule>(shape, [&](auto slices) {
    LaunchKernel(ScanStates<Rule, slices()>, blocks, kBlockThreads, 0, LaunchesEarly(context), context->stream, params);
  });
  return Launched(context);
}

}  // namespace

KernelStatus DeltaScan(DeviceContext* context, const DeltaScanParams& params) {
  return params.steps == nullptr ? Scan<DeltaRule>(context, params) : Scan<ChannelDeltaRule>(context, params);
}

KernelStatus SsmScan(DeviceContext* context, const SsmScanParams& params) {
  return Scan<SsmRule>(context, params);
}

}  // namespace dunlin::kernels::cuda

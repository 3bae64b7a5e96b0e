// SPDX-License-Identifier: Apache-2.0
// Grouped and batched GEMM: on 9.0 one launch of the wgmma kernel, where the weights lie as a model's do; else one of
// the tile kernel for each kGroupsPerLaunch groups, whatever their rows. Rows of both phases take it, so that a row's
// bits depend on neither.
#include <algorithm>

#include "kernels/cuda/device/launchers.h"
#include "kernels/cuda/gemm/cublaslt/gemm_form.h"
#include "kernels/cuda/gemm/grouped_product.h"
#include "kernels/cuda/gemm/kernel.h"
#include "kernels/cuda/gemm/sm80/grouped_kernels.h"
#include "kernels/cuda/gemm/sm80/grouped_plan.h"
#include "kernels/cuda/gemm/sm90/wgmma_call.h"

namespace dunlin::kernels::cuda {
namespace {

// The tile kernel multiplies groups on every device.
struct GroupedKernel {
  GemmOperand operand;
  int (*prepare)();
  void (*launch)(const GroupedCall&, Stream);
};
constexpr GroupedKernel kKernels[] = {
    {GemmOperand::kFp32, PrepareGroupedFp32, LaunchGroupedFp32},
    {GemmOperand::kBf16, PrepareGroupedBf16, LaunchGroupedBf16},
    {GemmOperand::kFp16, PrepareGroupedFp16, LaunchGroupedFp16},
    {GemmOperand::kFp8, PrepareGroupedFp8, LaunchGroupedFp8},
    {GemmOperand::kFp8Blocks, PrepareGroupedFp8Blocks, LaunchGroupedFp8Blocks},
    {GemmOperand::kCodes, PrepareGroupedCoded, LaunchGroupedCoded},
};
static_assert(std::ranges::is_sorted(kKernels, {}, &GroupedKernel::operand), "the index is the operand");

const GroupedKernel& KernelOf(const PackedWeight& weight) {
  return kKernels[static_cast<size_t>(OperandOf(weight))];
}

// The kernel of 9.0, whose bits are a lone product's, or null. Which one is used depends on the weights, and on where
// they lie, alone.
const GroupedGemmKernel* WgmmaOf(const DeviceContext* context, const PackedWeight& weight, bool gates) {
  return FindGroupedKernel(context->shape.sm_version, weight, gates, context->left_out_gemms);
}

// False, launching nothing, where weights lie at unequal distances.
bool LaunchGroups(DeviceContext* context, const GroupedGemmKernel& kernel, const GroupedGemmParams& params) {
  GroupedTileCall call;
  if (!GroupedTileCallOf(params, 0, params.num_groups, &call)) return false;
  for (int32_t first = 0; first < params.num_groups; first += kWgmmaGroupsMax) {
    (void)GroupedTileCallOf(params, first, std::min(kWgmmaGroupsMax, params.num_groups - first), &call);
    call.tile.multiprocessors = context->shape.multiprocessors;
    call.tile.overlaps = true;  // as Gemm's
    kernel.launch(call, context->stream);
  }
  return true;
}

bool LaunchBatches(DeviceContext* context, const BatchedGemmParams& params, int32_t first, int32_t count) {
  const GroupedGemmKernel* kernel = WgmmaOf(context, params.weights[0].weight, false);
  GroupedTileCall call;
  // Of all batches, so that the rows of each have the same kernel however many are multiplied at once.
  if (kernel == nullptr || !GroupedTileCallOf(params, 0, params.num_batches, &call)) return false;
  (void)GroupedTileCallOf(params, first, count, &call);
  call.tile.multiprocessors = context->shape.multiprocessors;
  call.tile.overlaps = true;
  kernel->launch(call, context->stream);
  return true;
}

}  // namespace

cudaError_t PrepareGroupedGemm() {
  for (const GroupedKernel& kernel : kKernels) {
    if (const int error = kernel.prepare(); error != cudaSuccess) return static_cast<cudaError_t>(error);
  }
  return cudaSuccess;
}

KernelStatus GroupedGemm(DeviceContext* context, const GroupedGemmParams& params) {
  if (!IsValid(params)) return KernelStatus::kInvalidArgument;
  const GemmParams product = ProductOf(params, 0);
  const bool gates = OutputsOf(product) == GemmOutputs::kGated;
  const GroupedGemmKernel* wgmma = WgmmaOf(context, params.weights[0].weight, gates);
  if (params.next != nullptr && !(gates ? wgmma != nullptr && TakesPairs(product) : TakesActivation(product))) {
    return KernelStatus::kUnsupported;
  }
  if (context->failed) return KernelStatus::kDeviceError;
  if (params.num_rows == 0) return KernelStatus::kOk;
  if (wgmma != nullptr && LaunchGroups(context, *wgmma, params)) return Launched(context);
  if (gates) return KernelStatus::kUnsupported;
  for (int32_t first = 0; first < params.num_groups; first += kGroupsPerLaunch) {
    const GroupedCall call = CallOf(params, first, std::min(kGroupsPerLaunch, params.num_groups - first));
    KernelOf(params.weights[0].weight).launch(call, context->stream);
  }
  return Launched(context);
}

KernelStatus BatchedGemm(DeviceContext* context, const BatchedGemmParams& params) {
  if (!IsValid(params)) return KernelStatus::kInvalidArgument;
  if (context->failed) return KernelStatus::kDeviceError;
  if (params.num_rows == 0) return KernelStatus::kOk;
  const int32_t at_once = BatchesPerLaunch(params);
  for (int32_t first = 0; first < params.num_batches; first += at_once) {
    const int32_t count = std::min(at_once, params.num_batches - first);
    const KernelStatus rounded = RoundBatches(context, params, first, count);
    if (rounded != KernelStatus::kOk) return rounded;
    if (LaunchBatches(context, params, first, count)) continue;
    KernelOf(params.weights[0].weight).launch(CallOf(params, first, count), context->stream);
  }
  return Launched(context);
}

}  // namespace dunlin::kernels::cuda

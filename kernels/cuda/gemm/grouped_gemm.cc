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

TiledRows TiledGroupsOf(const GroupedGemmKernel& kernel, const GroupedGemmParams& params) {
  const PackedWeight& weight = params.weights[0].weight;
  return TiledLaunchOf({kernel.name, weight.out_features, weight.in_features, params.num_groups}, params.num_rows,
                       kWgmmaGroupsMax);
}

// Which tile shape groups of this mean of rows, and of fewer, take from now on: rows go to groups at random, as those
// of a router that is balanced. REQUIRES: GroupedTileCallOf of params has succeeded.
void MeasureGroups(DeviceContext* context, const GroupedGemmKernel& kernel, const GroupedGemmParams& params) {
  const TiledRows timed_rows = TiledGroupsOf(kernel, params);
  const int32_t num_groups = timed_rows.product.groups;
  GroupedTileCall call;
  (void)GroupedTileCallOf(params, 0, num_groups, &call);
  const std::lock_guard<std::mutex> lock(context->turn);
  int32_t routed = 0;
  const auto launch = [&](int32_t num_rows, int32_t tile_shape) {
    if (routed != num_rows) {
      const std::vector<ExpertRows> groups = RoutedAtRandom(num_rows, num_groups);
      const KernelStatus status =
          CopyToDevice(context, context->staging, groups.data(), groups.size() * sizeof(ExpertRows));
      if (status != KernelStatus::kOk) return status;
      routed = num_rows;
    }
    GroupedTileCall timed = call;
    timed.groups = static_cast<const ExpertRows*>(context->staging);
    timed.tile.num_rows = num_rows;
    timed.tile.tile_shape = tile_shape;
    timed.tile.multiprocessors = context->shape.multiprocessors;
    timed.tile.overlaps = true;
    kernel.launch(timed, context->stream);
    return Launched(context);
  };
  context->tiles.Measure(timed_rows.product, timed_rows.num_rows, ShapeRowsOf(kernel), launch);
}

// False, launching nothing, where weights lie at unequal distances.
bool LaunchGroups(DeviceContext* context, const GroupedGemmKernel& kernel, const GroupedGemmParams& params) {
  GroupedTileCall call;
  if (!GroupedTileCallOf(params, 0, params.num_groups, &call)) return false;
  if (context->tiles.tunes()) MeasureGroups(context, kernel, params);
  const TiledRows launched = TiledGroupsOf(kernel, params);
  const int32_t tile_shape = context->tiles.Find(launched.product, launched.num_rows);
  for (int32_t first = 0; first < params.num_groups; first += kWgmmaGroupsMax) {
    (void)GroupedTileCallOf(params, first, std::min(kWgmmaGroupsMax, params.num_groups - first), &call);
    call.tile.tile_shape = tile_shape;
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

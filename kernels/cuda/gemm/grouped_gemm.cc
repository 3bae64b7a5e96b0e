// SPDX-License-Identifier: Apache-2.0
// Grouped and batched GEMM: one launch of the tile kernel for each kGroupsPerLaunch groups, whatever their rows. Rows
// of both phases take it, so that a row's bits depend on neither.
#include <algorithm>

#include "kernels/cuda/device/launchers.h"
#include "kernels/cuda/gemm/cublaslt/gemm_form.h"
#include "kernels/cuda/gemm/kernel.h"
#include "kernels/cuda/gemm/sm80/grouped_kernels.h"
#include "kernels/cuda/gemm/sm80/grouped_plan.h"

namespace dunlin::kernels::cuda {
namespace {

// Every device multiplies groups by the tile kernel.
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

// Whether the tile kernel can fill params.next: what gemm_fuses says of one group, whatever cuBLASLt has.
bool TakesNext(const GroupedGemmParams& params) {
  GemmParams product{};
  product.weight = &params.weights[0].weight;
  product.next = params.next;
  product.activation = params.activation;
  return TakesActivation(product);
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
  if (params.next != nullptr && !TakesNext(params)) return KernelStatus::kUnsupported;
  if (context->failed) return KernelStatus::kDeviceError;
  if (params.num_rows == 0) return KernelStatus::kOk;
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
    KernelOf(params.weights[0].weight).launch(CallOf(params, first, count), context->stream);
  }
  return Launched(context);
}

}  // namespace dunlin::kernels::cuda

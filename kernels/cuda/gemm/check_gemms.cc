// SPDX-License-Identifier: Apache-2.0
// The check of rows of kernel_table.cc that are new to a device, before it computes anything else.
#include "kernels/cuda/device/launchers.h"
#include "kernels/cuda/device/owned_memory.h"
#include "kernels/cuda/gemm/check_grouped.h"
#include "kernels/cuda/gemm/check_problem.h"
#include "kernels/cuda/gemm/sm80/tile_plan.h"

namespace dunlin::kernels::cuda {
namespace {

// A problem in the device's memory.
struct DeviceProblem {
  DeviceProblem(DeviceContext* owner, const CheckProblem& problem)
      : context(owner),
        weight(owner, problem.weight.size()),
        in(owner, problem.in.size()),
        bias(owner, problem.bias.size() * sizeof(float)),
        residual(owner, problem.residual.size() * sizeof(float)),
        out(owner, CheckProblem::kOuts * sizeof(float)),
        packed(problem.Weight(weight.data())),
        input(problem.Input(in.data())),
        heads(problem.Heads(out.floats())) {
    for (const auto& [memory, source] : {std::pair<OwnedMemory*, const void*>{&weight, problem.weight.data()},
                                         {&in, problem.in.data()},
                                         {&bias, problem.bias.data()},
                                         {&residual, problem.residual.data()}}) {
      if (memory->data() == nullptr || out.data() == nullptr) ready = false;
      if (ready && CopyToDevice(context, memory->data(), source, memory->bytes()) != KernelStatus::kOk) ready = false;
    }
  }

  GemmParams Params() const {
    return {
        &input, &packed, bias.floats(), residual.floats(), out.floats(), CheckProblem::kColumns, CheckProblem::kRows};
  }
  // All NaN, so that what a kernel leaves out is seen.
  bool Poison() { return cudaMemsetAsync(out.data(), 0xFF, out.bytes(), context->stream) == cudaSuccess; }
  bool Read(std::vector<float>* values) const {
    values->resize(CheckProblem::kOuts);
    return CopyToHost(context, values->data(), out.data(), out.bytes()) == KernelStatus::kOk;
  }

  DeviceContext* context;
  OwnedMemory weight;
  OwnedMemory in;
  OwnedMemory bias;
  OwnedMemory residual;
  OwnedMemory out;
  PackedWeight packed;
  Activation input;
  RotateAndStoreKvParams heads;
  bool ready = true;
};

// *agrees: every tile shape gives what the other kernel gives, and all of them the same bits. A launch that is refused
// agrees with nothing and leaves the device usable.
KernelStatus CheckRow(DeviceContext* context, const GemmKernel& kernel, bool* agrees) {
  *agrees = false;
  if (kernel.prepare() != cudaSuccess) {
    (void)cudaGetLastError();
    return KernelStatus::kOk;
  }
  DeviceProblem problem(context, CheckProblem(kernel.operands));
  std::vector<float> expected;
  std::vector<float> first;
  if (!problem.ready || !problem.Poison()) return Checked(context, cudaErrorMemoryAllocation);
  GemmParams params = problem.Params();
  const RotateAndStoreKvParams heads = problem.heads;
  if (kernel.paired) params.residual = nullptr;
  const bool decodes = (kernel.phases >> static_cast<unsigned>(GemmPhase::kPrefill) & 1U) == 0;
  params.decode_rows = decodes ? params.num_rows : 0;
  if (const KernelStatus status = Gemm(context, params); status != KernelStatus::kOk) return status;
  if (!problem.Read(&expected)) return KernelStatus::kDeviceError;
  if (kernel.paired) params.heads = &heads;
  for (int32_t shape = 1; shape <= kernel.checked_shapes; ++shape) {
    TileCall call = TileCallOf(params, 0, CheckProblem::kRows, false, nullptr);
    call.tile_shape = shape;
    call.multiprocessors = 2;  // two blocks, so that each takes several tiles
    std::vector<float> out;
    if (!problem.Poison()) return Checked(context, cudaErrorUnknown);
    kernel.launch(call, context->stream);
    if (cudaGetLastError() != cudaSuccess) return KernelStatus::kOk;
    if (!problem.Read(&out)) return KernelStatus::kDeviceError;
    if (!ChecksAgree(problem.packed.precision, expected, out)) return KernelStatus::kOk;
    if (shape == 1) first = out;
    if (out != first) return KernelStatus::kOk;
  }
  *agrees = true;
  return KernelStatus::kOk;
}

}  // namespace

KernelStatus CheckGemms(DeviceContext* context, std::string* warning) {
  const uint32_t left_out = context->left_out_gemms;
  context->left_out_gemms |= CheckedGemms();  // the check itself computes with the other kernels
  uint32_t found = left_out;
  KernelStatus status = KernelStatus::kOk;
  const auto check = [&](uint32_t bit, const char* name, auto check_row) {
    if (status != KernelStatus::kOk || (left_out & bit) != 0) return;
    bool agrees = false;
    status = check_row(&agrees);
    if (status != KernelStatus::kOk) {
      *warning = std::string("the device failed while the GEMM kernel '") + name + "' was checked";
    } else if (!agrees) {
      found |= bit;
      *warning += warning->empty() ? "not used, because they failed their check on this device: GEMM kernel '" : ", '";
      *warning += std::string(name) + "'";
    }
  };
  const int sm_version = context->shape.sm_version;
  const std::span<const GemmKernel> kernels = GemmKernels();
  for (size_t i = 0; i < kernels.size(); ++i) {
    if (kernels[i].checked_shapes == 0 || !RunsOn(kernels[i], sm_version)) continue;
    check(1U << i, kernels[i].name, [&](bool* agrees) { return CheckRow(context, kernels[i], agrees); });
  }
  const std::span<const GroupedGemmKernel> grouped = GroupedGemmKernels();
  for (size_t i = 0; i < grouped.size(); ++i) {
    if (!RunsOn(grouped[i], sm_version)) continue;
    check(BitOfGrouped(i), grouped[i].name, [&](bool* agrees) { return CheckGroupedRow(context, grouped[i], agrees); });
  }
  if (status == KernelStatus::kOk) context->left_out_gemms = found;
  return status;
}

}  // namespace dunlin::kernels::cuda

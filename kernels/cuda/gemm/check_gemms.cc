// SPDX-License-Identifier: Apache-2.0
// The check of rows of kernel_table.cc that are new to a device, before it computes anything else.
#include <algorithm>

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

// The product by one of the kernel's shapes in two blocks, so that each takes several tiles. `out` is empty where the
// launch was refused, which leaves the device usable.
KernelStatus RunShape(DeviceProblem* problem, const GemmKernel& kernel, const GemmParams& params, int32_t shape,
                      std::vector<float>* out) {
  TileCall call = TileCallOf(params, 0, CheckProblem::kRows, false, nullptr);
  call.tile_shape = shape;
  call.multiprocessors = 2;
  out->clear();
  if (!problem->Poison()) return Checked(problem->context, cudaErrorUnknown);
  kernel.launch(call, problem->context->stream);
  if (cudaGetLastError() != cudaSuccess) return KernelStatus::kOk;
  return problem->Read(out) ? KernelStatus::kOk : KernelStatus::kDeviceError;
}

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
  if (const KernelStatus status = Gemm(context, params); status != KernelStatus::kOk) return status;
  if (!problem.Read(&expected)) return KernelStatus::kDeviceError;
  if (kernel.paired) params.heads = &heads;
  for (int32_t shape = 1; shape <= kernel.checked_shapes; ++shape) {
    std::vector<float> out;
    if (const KernelStatus status = RunShape(&problem, kernel, params, shape, &out); status != KernelStatus::kOk) {
      return status;
    }
    if (out.empty() || !ChecksAgree(problem.packed.precision, expected, out)) return KernelStatus::kOk;
    if (shape == 1) first = out;
    if (out != first) return KernelStatus::kOk;
  }
  *agrees = true;
  return KernelStatus::kOk;
}

// *agrees: a weight of codes gives a product the bits that its values give the BF16 kernel, which has been prepared: a
// prompt's length chooses between them (ExpandsFirst).
KernelStatus CheckExpanded(DeviceContext* context, const GemmKernel& codes, const GemmKernel& bf16, bool* agrees) {
  const CheckProblem coded(codes.operands);
  std::vector<float> outs[2];
  for (const bool expanded : {false, true}) {
    DeviceProblem problem(context, expanded ? coded.Expanded() : coded);
    if (!problem.ready) return Checked(context, cudaErrorMemoryAllocation);
    const KernelStatus status =
        RunShape(&problem, expanded ? bf16 : codes, problem.Params(), 1, &outs[expanded ? 1 : 0]);
    if (status != KernelStatus::kOk) return status;
  }
  *agrees = !outs[0].empty() && outs[0] == outs[1];
  return KernelStatus::kOk;
}

const GemmKernel& KernelOfOperand(GemmOperand operand) {
  return *std::ranges::find_if(GemmKernels(), [operand](const GemmKernel& kernel) {
    return kernel.operands == 1U << static_cast<unsigned>(operand) && kernel.checked_shapes > 0;
  });
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
  const GemmKernel& codes = KernelOfOperand(GemmOperand::kCodes);
  const GemmKernel& bf16 = KernelOfOperand(GemmOperand::kBf16);
  const auto bit_of = [&](const GemmKernel& kernel) { return 1U << (&kernel - kernels.data()); };
  if (RunsOn(codes, sm_version) && (found & (bit_of(codes) | bit_of(bf16))) == 0) {
    check(bit_of(codes), codes.name, [&](bool* agrees) { return CheckExpanded(context, codes, bf16, agrees); });
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

// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/gemm/check_grouped.h"

#include <algorithm>

#include "kernels/cuda/device/launchers.h"
#include "kernels/cuda/device/owned_memory.h"
#include "kernels/cuda/gemm/check_problem.h"

namespace dunlin::kernels::cuda {
namespace {

// A problem in the device's memory.
struct DeviceGroups {
  DeviceGroups(DeviceContext* owner, const GroupedCheckProblem& problem, bool with_gates)
      : context(owner),
        gates(with_gates),
        precision(problem.problems[0].precision),
        weight(owner, problem.weights.size()),
        in(owner, problem.problems[0].in.size()),
        bias(owner, problem.biases.size() * sizeof(float)),
        rows(owner, sizeof(GroupedCheckProblem::kGroupRows)),
        out(owner, CheckProblem::kOuts * sizeof(float)),
        weights(problem.Weights(weight.data(), bias.floats(), with_gates)),
        input(problem.problems[0].Input(in.data())),
        next{.data = out.data(), .precision = precision, .capacity_rows = CheckProblem::kRows} {
    next.columns = CheckProblem::kColumns / 2;
    for (const auto& [memory, source] : {std::pair<OwnedMemory*, const void*>{&weight, problem.weights.data()},
                                         {&in, problem.problems[0].in.data()},
                                         {&bias, problem.biases.data()},
                                         {&rows, GroupedCheckProblem::kGroupRows}}) {
      if (memory->data() == nullptr || out.data() == nullptr) ready = false;
      if (ready && CopyToDevice(context, memory->data(), source, memory->bytes()) != KernelStatus::kOk) ready = false;
    }
  }

  // All NaN, so that what a kernel leaves out is seen.
  bool Poison() { return cudaMemsetAsync(out.data(), 0xFF, out.bytes(), context->stream) == cudaSuccess; }
  bool Read(void* to, size_t bytes) const { return CopyToHost(context, to, out.data(), bytes) == KernelStatus::kOk; }
  // The rows of each group as they are without others.
  KernelStatus Expect(std::vector<float>* expected) {
    expected->resize(CheckProblem::kOuts);
    std::vector<float> all(CheckProblem::kOuts);
    for (int32_t group = 0; group < GroupedCheckProblem::kGroups; ++group) {
      const BiasedWeight& of_group = weights[static_cast<size_t>(group)];
      const GemmParams params{&input,       &of_group.weight,       of_group.bias,      nullptr,
                              out.floats(), CheckProblem::kColumns, CheckProblem::kRows};
      if (const KernelStatus status = Gemm(context, params); status != KernelStatus::kOk) return status;
      if (!Read(all.data(), out.bytes())) return KernelStatus::kDeviceError;
      const ExpertRows& of = GroupedCheckProblem::kGroupRows[group];
      std::copy_n(all.begin() + of.first * CheckProblem::kColumns, of.count * CheckProblem::kColumns,
                  expected->begin() + of.first * CheckProblem::kColumns);
    }
    if (gates) *expected = GatesOf(*expected);
    return KernelStatus::kOk;
  }
  GroupedTileCall Call() {
    const GroupedGemmParams params{.in = &input,
                                   .weights = weights.data(),
                                   .num_groups = GroupedCheckProblem::kGroups,
                                   .groups = static_cast<const ExpertRows*>(rows.data()),
                                   .out = gates ? nullptr : out.floats(),
                                   .out_stride = CheckProblem::kColumns,
                                   .num_rows = CheckProblem::kRows,
                                   .next = gates ? &next : nullptr,
                                   .activation = ActivationKind::kSilu};
    GroupedTileCall call;
    ready = ready && GroupedTileCallOf(params, 0, params.num_groups, &call);
    return call;
  }
  bool ReadOutputs(std::vector<float>* values) const {
    if (!gates) {
      values->resize(CheckProblem::kOuts);
      return Read(values->data(), out.bytes());
    }
    std::vector<unsigned char> bytes(CheckProblem::kRows * static_cast<size_t>(RowBytes(precision, next.columns)));
    if (!Read(bytes.data(), bytes.size())) return false;
    *values = StoredGates(bytes, precision);
    return true;
  }

  DeviceContext* context;
  bool gates;
  Precision precision;
  OwnedMemory weight;
  OwnedMemory in;
  OwnedMemory bias;
  OwnedMemory rows;
  OwnedMemory out;
  std::vector<BiasedWeight> weights;
  Activation input;
  Activation next;
  bool ready = true;
};

}  // namespace

KernelStatus CheckGroupedRow(DeviceContext* context, const GroupedGemmKernel& kernel, bool* agrees) {
  *agrees = false;
  if (kernel.prepare() != cudaSuccess) {
    (void)cudaGetLastError();
    return KernelStatus::kOk;
  }
  DeviceGroups groups(context, GroupedCheckProblem(kernel.operands), kernel.gates);
  if (!groups.ready) return Checked(context, cudaErrorMemoryAllocation);
  std::vector<float> expected;
  std::vector<float> first;
  if (const KernelStatus status = groups.Expect(&expected); status != KernelStatus::kOk) return status;
  GroupedTileCall call = groups.Call();
  if (!groups.ready) return KernelStatus::kOk;
  call.tile.multiprocessors = 2;  // few blocks, so that each takes several tiles
  for (int32_t shape = 1; shape <= kernel.checked_shapes; ++shape) {
    call.tile.tile_shape = shape;
    std::vector<float> out;
    if (!groups.Poison()) return Checked(context, cudaErrorUnknown);
    kernel.launch(call, context->stream);
    if (cudaGetLastError() != cudaSuccess) return KernelStatus::kOk;
    if (!groups.ReadOutputs(&out)) return KernelStatus::kDeviceError;
    if (!(kernel.gates ? GatesAgree(expected, out) : ChecksAgree(groups.precision, expected, out))) {
      return KernelStatus::kOk;
    }
    if (shape == 1) first = out;
    if (out != first) return KernelStatus::kOk;
  }
  *agrees = true;
  return KernelStatus::kOk;
}

}  // namespace dunlin::kernels::cuda

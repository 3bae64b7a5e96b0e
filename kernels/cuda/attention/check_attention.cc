// SPDX-License-Identifier: Apache-2.0
// The check of attention kernels that are new to a device, before it computes anything else.
#include <bit>
#include <cstring>
#include <string>
#include <utility>

#include "kernels/cuda/attention/check_problem.h"
#include "kernels/cuda/device/launchers.h"
#include "kernels/cuda/device/owned_memory.h"

namespace dunlin::kernels::cuda {
namespace {

constexpr size_t kWorkspaceBytes = size_t{8} << 20;
// Multiprocessors of a launch. Of prefill few, so that blocks which take several tasks do. Of decode the device's, so
// that keys are divided, and one, so that they are not.
constexpr int32_t kPrefillBlocks = 5;
constexpr int32_t kOneBlock = 1;

// A check's call in the device's memory.
class DeviceCheck {
 public:
  DeviceCheck(DeviceContext* context, const AttentionCheck& check)
      : context_(context),
        check_(check),
        pool_(context, check.pool.size()),
        page_table_(context, check.page_table.size() * sizeof(int32_t)),
        spans_(context, check.spans.size() * sizeof(SequenceSpan)),
        query_(context, check.query.size() * sizeof(float)),
        out_(context, check.out_floats(false) * sizeof(float)),
        workspace_(context, kWorkspaceBytes) {
    for (const auto& [memory, source] : {std::pair<const OwnedMemory*, const void*>{&pool_, check.pool.data()},
                                         {&page_table_, check.page_table.data()},
                                         {&spans_, check.spans.data()},
                                         {&query_, check.query.data()}}) {
      ready_ = ready_ && memory->data() != nullptr && out_.data() != nullptr && workspace_.data() != nullptr &&
               CopyToDevice(context, memory->data(), source, memory->bytes()) == KernelStatus::kOk;
    }
  }
  bool ready() const { return ready_; }

  // Outputs by a row, in which what it leaves out is NaN; empty where it cannot be launched. False: the device failed.
  bool Run(const AttentionKernel& kernel, bool decode, int32_t multiprocessors, std::vector<float>* out) const {
    const AttentionCall call =
        check_.Call({pool_.data(), static_cast<const int32_t*>(page_table_.data()),
                     static_cast<const SequenceSpan*>(spans_.data()), query_.floats(), out_.floats()},
                    decode);
    if (cudaMemsetAsync(out_.data(), 0xFF, out_.bytes(), context_->stream) != cudaSuccess) return false;
    DeviceShape device = context_->shape;
    device.multiprocessors = multiprocessors;
    LaunchRow(kernel, call, device, workspace_.data(), workspace_.bytes(), context_->stream);
    out->clear();
    if (cudaGetLastError() != cudaSuccess) return cudaStreamSynchronize(context_->stream) == cudaSuccess;
    out->resize(check_.out_floats(decode));
    return CopyToHost(context_, out->data(), out_.data(), out->size() * sizeof(float)) == KernelStatus::kOk;
  }

 private:
  DeviceContext* const context_;
  const AttentionCheck& check_;
  OwnedMemory pool_;
  OwnedMemory page_table_;
  OwnedMemory spans_;
  OwnedMemory query_;
  OwnedMemory out_;
  OwnedMemory workspace_;
  bool ready_ = true;
};

// The backend's row that takes a phase's calls of a check, on a device without `left_out`.
const AttentionKernel& RowOf(const DeviceShape& device, uint32_t left_out, AttentionBackend backend, bool decode,
                             const AttentionTraits& traits) {
  DeviceShape shape = device;
  shape.left_out_attention = left_out;
  const AttentionPhase phase = decode ? AttentionPhase::kDecode : AttentionPhase::kPrefill;
  return *FindKernel(AttentionKernels(), shape, backend, phase, traits);
}

// *agrees: the rows of a bit give what the general ones give, and those of both phases the same bits.
KernelStatus CheckRows(DeviceContext* context, const AttentionKernel& kernel, const AttentionCheck& check, uint32_t all,
                       bool* agrees) {
  const DeviceCheck on_device(context, check);
  if (!on_device.ready()) return Checked(context, cudaErrorMemoryAllocation);
  struct Launch {
    bool decode;
    int32_t multiprocessors;
  };
  const Launch launches[] = {{false, kPrefillBlocks}, {true, context->shape.multiprocessors}, {true, kOneBlock}};
  std::vector<float> first;
  *agrees = true;
  for (const auto& [decode, multiprocessors] : launches) {
    const AttentionKernel& checked =
        RowOf(context->shape, all & ~kernel.check_bit, kernel.backend, decode, check.traits());
    if (checked.prepare() != cudaSuccess) {
      (void)cudaGetLastError();
      *agrees = false;
      return KernelStatus::kOk;
    }
    std::vector<float> expected;
    std::vector<float> out;
    const AttentionKernel& general = RowOf(context->shape, all, kernel.backend, decode, check.traits());
    if (!on_device.Run(general, decode, multiprocessors, &expected) ||
        !on_device.Run(checked, decode, multiprocessors, &out)) {
      return Checked(context, cudaErrorUnknown);
    }
    if (first.empty()) first = out;
    // Rows of one token come first in all of them.
    *agrees = *agrees && OutputsAgree(expected, out) &&
              std::memcmp(first.data(), out.data(), out.size() * sizeof(float)) == 0;
  }
  return KernelStatus::kOk;
}

}  // namespace

KernelStatus CheckAttention(DeviceContext* context, std::string* warning) {
  const uint32_t all = CheckedAttention(context->shape);
  uint32_t left_out = context->shape.left_out_attention;
  std::string names;
  for (const AttentionKernel& kernel : AttentionKernels()) {
    if ((kernel.check_bit & all & ~left_out) == 0 || (kernel.phases & Bit(AttentionPhase::kPrefill)) == 0) continue;
    bool agrees = false;
    const AttentionCheck check(kernel);
    const std::string name = std::string(Name(kernel.backend)) + " by wgmma in " + Name(check.dtype) +
                             (check.latent ? " for latent rows of " : " for heads of up to ") +
                             std::to_string(check.head_dim);
    if (CheckRows(context, kernel, check, all, &agrees) != KernelStatus::kOk) {
      *warning = "the device failed while " + name + " was checked";
      return KernelStatus::kDeviceError;
    }
    if (agrees) continue;
    left_out |= kernel.check_bit;
    names += (names.empty() ? "" : ", ") + name;
  }
  context->shape.left_out_attention = left_out;
  if (!names.empty()) {
    *warning += (warning->empty() ? "" : "; ") + ("not used, because they failed their check on this device: " + names);
  }
  return KernelStatus::kOk;
}

}  // namespace dunlin::kernels::cuda

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
        slopes_(context, check.slopes.size() * sizeof(float)),
        out_(context, check.out_floats(false) * sizeof(float)),
        workspace_(context, kWorkspaceBytes) {
    for (const auto& [memory, source] : {std::pair<const OwnedMemory*, const void*>{&pool_, check.pool.data()},
                                         {&page_table_, check.page_table.data()},
                                         {&spans_, check.spans.data()},
                                         {&query_, check.query.data()},
                                         {&slopes_, check.slopes.data()}}) {
      ready_ = ready_ && memory->data() != nullptr && out_.data() != nullptr && workspace_.data() != nullptr &&
               CopyToDevice(context, memory->data(), source, memory->bytes()) == KernelStatus::kOk;
    }
  }
  bool ready() const { return ready_; }

  AttentionCall Call(bool decode, CheckedScores scores) const {
    return check_.Call(
        {pool_.data(), static_cast<const int32_t*>(page_table_.data()), static_cast<const SequenceSpan*>(spans_.data()),
         query_.floats(), slopes_.floats(), out_.floats()},
        decode, scores);
  }

  // Outputs of a call by a row, in which what it leaves out is NaN; empty where it cannot be launched. False: the
  // device failed.
  bool Run(const AttentionKernel& kernel, const AttentionCall& call, bool decode, int32_t multiprocessors,
           std::vector<float>* out) const {
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
  OwnedMemory slopes_;
  OwnedMemory out_;
  OwnedMemory workspace_;
  bool ready_ = true;
};

// The backend's row that takes a call of a check, on a device without `left_out`.
const AttentionKernel& RowOf(const DeviceShape& device, uint64_t left_out, AttentionBackend backend, bool decode,
                             const AttentionTraits& traits, const AttentionCall& call) {
  DeviceShape shape = device;
  shape.left_out_attention = left_out;
  const AttentionPhase phase = decode ? AttentionPhase::kDecode : AttentionPhase::kPrefill;
  return *FindKernel(AttentionKernels(), shape, backend, phase, traits, &call);
}

// The rows of a kernel's bit on calls of these scores: *agrees becomes false unless they give what the general ones
// give, and those of both phases the same bits. `all`: the bits of the device.
KernelStatus CheckScores(DeviceContext* context, const AttentionKernel& kernel, uint64_t all,
                         const AttentionCheck& check, const DeviceCheck& on_device, CheckedScores scores,
                         bool* agrees) {
  struct Launch {
    bool decode;
    int32_t multiprocessors;
  };
  const Launch launches[] = {{false, kPrefillBlocks}, {true, context->shape.multiprocessors}, {true, kOneBlock}};
  std::vector<float> first;
  for (const auto& [decode, multiprocessors] : launches) {
    const AttentionCall call = on_device.Call(decode, scores);
    const auto row = [&](uint64_t left_out) -> const AttentionKernel& {
      return RowOf(context->shape, left_out, kernel.backend, decode, check.traits(), call);
    };
    const AttentionKernel& checked = row(all & ~kernel.check_bit);
    const AttentionKernel& general = row(all);
    if (checked.prepare() != cudaSuccess) {
      (void)cudaGetLastError();
      *agrees = false;
      return KernelStatus::kOk;
    }
    std::vector<float> expected;
    std::vector<float> out;
    if (!on_device.Run(general, call, decode, multiprocessors, &expected) ||
        !on_device.Run(checked, call, decode, multiprocessors, &out)) {
      return Checked(context, cudaErrorUnknown);
    }
    if (first.empty()) first = out;
    // Rows of one token come first in all of them.
    *agrees = *agrees && OutputsAgree(expected, out) &&
              std::memcmp(first.data(), out.data(), out.size() * sizeof(float)) == 0;
  }
  return KernelStatus::kOk;
}

// *agrees: for all calls of the check that the row takes.
KernelStatus CheckRows(DeviceContext* context, const AttentionKernel& kernel, const AttentionCheck& check, uint64_t all,
                       bool* agrees) {
  const DeviceCheck on_device(context, check);
  if (!on_device.ready()) return Checked(context, cudaErrorMemoryAllocation);
  *agrees = true;
  for (const CheckedScores scores : check.ScoresOf(kernel)) {
    const KernelStatus status = CheckScores(context, kernel, all, check, on_device, scores, agrees);
    if (status != KernelStatus::kOk) return status;
  }
  return KernelStatus::kOk;
}

std::string NameOf(const AttentionKernel& kernel, const AttentionCheck& check) {
  return std::string(Name(kernel.backend)) + " by wgmma in " + Name(check.dtype) +
         (check.latent ? " for latent rows of " : " for heads of up to ") + std::to_string(check.head_dim) +
         (check.ScoresOf(kernel)[0] == CheckedScores::kPlain ? "" : " with soft caps or ALiBi");
}

}  // namespace

KernelStatus CheckAttention(DeviceContext* context, std::string* warning) {
  const uint64_t all = CheckedAttention(context->shape);
  uint64_t left_out = context->shape.left_out_attention;
  std::string names;
  for (const AttentionKernel& kernel : AttentionKernels()) {
    if ((kernel.check_bit & all & ~left_out) == 0 || (kernel.phases & Bit(AttentionPhase::kPrefill)) == 0) continue;
    bool agrees = false;
    const AttentionCheck check(kernel);
    const std::string name = NameOf(kernel, check);
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

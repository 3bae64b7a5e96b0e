// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/attention/support.h"

#include "kernels/cuda/attention/flash/sm80/flash_block.h"
#include "kernels/shared/attention_rules.h"

namespace dunlin::kernels::cuda {
namespace {

// Dtypes of keys and values, one bit each.
constexpr unsigned Bit(DType dtype) {
  return 1U << static_cast<unsigned>(dtype);
}
constexpr DType kAllDTypes[] = {DType::kF32, DType::kF16, DType::kBF16, DType::kF8E4M3};
constexpr unsigned kAnyDType = Bit(DType::kF32) | Bit(DType::kF16) | Bit(DType::kBF16) | Bit(DType::kF8E4M3);
constexpr unsigned kTensorDTypes = kAnyDType & ~Bit(DType::kF32);

// What a backend takes from a compute capability on, up to the next row of the same backend. FLASH multiplies on tensor
// cores only, which do not take FP32, and keeps a row's output in registers. All backends take whatever else
// AttentionTraits names: window, softcap, ALiBi, sinks, causal or not, both alignments, a v_head_dim that differs from
// head_dim, values in keys.
struct Capability {
  int sm_version_min;
  AttentionBackend backend;
  unsigned dtypes;
  AttentionLimits limits;
};
constexpr Capability kCapabilities[] = {
    {80, AttentionBackend::kMath, kAnyDType, {kAnyHeadDim, true, true}},
    {80, AttentionBackend::kFlash, kTensorDTypes, {kFlashDimMax, false, false}},
    {80, AttentionBackend::kEfficient, kAnyDType, {kAnyHeadDim, true, true}},
};

const Capability* Find(int sm_version, AttentionBackend backend) {
  const Capability* found = nullptr;
  for (const Capability& row : kCapabilities) {
    if (row.backend == backend && row.sm_version_min <= sm_version) found = &row;
  }
  return found;
}

// A backend without a row keeps the zeros of a backend that the device does not have.
AttentionLimitsTable LimitsOf(int sm_version) {
  AttentionLimitsTable limits{};
  for (const Capability& row : kCapabilities) {
    if (row.sm_version_min <= sm_version) limits[static_cast<size_t>(row.backend)] = row.limits;
  }
  return limits;
}

// "fp16, bf16 and fp8_e4m3"
std::string DTypeNames(unsigned dtypes) {
  std::vector<std::string> names;
  for (const DType dtype : kAllDTypes) {
    if ((dtypes & Bit(dtype)) != 0) names.emplace_back(Name(dtype));
  }
  return ListInWords(names);
}

}  // namespace

bool SupportsAttention(int sm_version, AttentionBackend backend, const AttentionTraits& traits,
                       std::vector<std::string>* reasons) {
  AttentionRefusals refuse(backend, "cuda", reasons);
  AddShapeRules(traits, &refuse);
  const Capability* row = Find(sm_version, backend);
  refuse.If(row == nullptr, [&] {
    return "needs compute capability 8.0 or later; the device has " + std::to_string(sm_version / 10) + "." +
           std::to_string(sm_version % 10);
  });
  if (row != nullptr) {
    refuse.If((row->dtypes & Bit(traits.dtype)) == 0,
              [&] { return "supports keys in " + DTypeNames(row->dtypes) + "; they are in " + Name(traits.dtype); });
    AddLimits(LimitsOf(sm_version), backend, traits, &refuse);
  }
  AddScoreRules(traits, &refuse);
  return refuse.supported();
}

}  // namespace dunlin::kernels::cuda

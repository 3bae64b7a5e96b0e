// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/attention/support.h"

#include <algorithm>

#include "kernels/cuda/attention/kernel.h"

namespace dunlin::kernels::cuda {
namespace {

constexpr DType kAllDTypes[] = {DType::kF32, DType::kF16, DType::kBF16, DType::kF8E4M3};

// Of the kernels of a backend that the device runs, taken together; zeros where there are none.
struct BackendSupport {
  unsigned dtypes = 0;
  AttentionLimits limits;
};
using BackendSupports = std::array<BackendSupport, kNumAttentionBackends>;

BackendSupports SupportsOf(const DeviceShape& device) {
  BackendSupports supports{};
  for (const AttentionKernel& kernel : AttentionKernels()) {
    if (!RunsOn(kernel, device)) continue;
    BackendSupport& all = supports[static_cast<size_t>(kernel.backend)];
    all.dtypes |= kernel.dtypes;
    all.limits.max_head_dim = std::max(all.limits.max_head_dim, kernel.limits.max_head_dim);
    all.limits.max_latent_dim = std::max(all.limits.max_latent_dim, kernel.limits.max_latent_dim);
    all.limits.bias |= kernel.limits.bias;
    all.limits.mask |= kernel.limits.mask;
  }
  return supports;
}

AttentionLimitsTable LimitsOf(const BackendSupports& supports) {
  AttentionLimitsTable limits{};
  for (size_t i = 0; i < limits.size(); ++i) limits[i] = supports[i].limits;
  return limits;
}

// The lowest compute capability of a backend's kernels, or 0.
int32_t LowestSm(AttentionBackend backend) {
  int32_t lowest = 0;
  for (const AttentionKernel& kernel : AttentionKernels()) {
    if (kernel.backend == backend && (lowest == 0 || kernel.sm_min < lowest)) lowest = kernel.sm_min;
  }
  return lowest;
}

// 80: "8.0"
std::string SmName(int32_t sm_version) {
  return std::to_string(sm_version / 10) + "." + std::to_string(sm_version % 10);
}

// "fp16, bf16 and fp8_e4m3"
std::string DTypeNames(unsigned dtypes) {
  std::vector<std::string> names;
  for (const DType dtype : kAllDTypes) {
    if ((dtypes & Bit(dtype)) != 0) names.emplace_back(Name(dtype));
  }
  return ListInWords(names);
}

bool HasKernels(const DeviceShape& device, AttentionBackend backend, const AttentionTraits& traits) {
  return std::ranges::all_of(kAttentionPhases, [&](AttentionPhase phase) {
    return FindKernel(AttentionKernels(), device, backend, phase, traits) != nullptr;
  });
}

}  // namespace

bool SupportsAttentionOn(const DeviceShape& device, AttentionBackend backend, const AttentionTraits& traits,
                         std::vector<std::string>* reasons) {
  AttentionRefusals refuse(backend, "cuda", reasons);
  AddShapeRules(traits, &refuse);
  const int32_t lowest = LowestSm(backend);
  const bool too_old = device.sm_version < lowest;
  refuse.If(too_old, [&] {
    return "needs compute capability " + SmName(lowest) + " or later; the device has " + SmName(device.sm_version);
  });
  if (!too_old) {
    const BackendSupports supports = SupportsOf(device);
    const unsigned dtypes = supports[static_cast<size_t>(backend)].dtypes;
    refuse.If(dtypes != 0 && (dtypes & Bit(traits.dtype)) == 0,
              [&] { return "supports keys in " + DTypeNames(dtypes) + "; they are in " + Name(traits.dtype); });
    AddLimits(LimitsOf(supports), backend, traits, &refuse);
  }
  AddScoreRules(traits, &refuse);
  // Each property is supported, but by no kernel all of them.
  refuse.If(refuse.supported() && !HasKernels(device, backend, traits), [&] {
    return std::string("has no kernel for keys in ") + Name(traits.dtype) + " with head_dim " +
           std::to_string(traits.head_dim) + (traits.bias ? ", a bias" : "") + (traits.mask ? ", a mask" : "");
  });
  return refuse.supported();
}

}  // namespace dunlin::kernels::cuda

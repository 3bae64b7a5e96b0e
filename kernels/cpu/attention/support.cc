// SPDX-License-Identifier: Apache-2.0
// What each backend supports on the CPU; refusal reasons follow PyTorch's.
#include "kernels/cpu/attention/attention.h"
#include "kernels/shared/attention_rules.h"

namespace dunlin::kernels::cpu {
namespace {

// By AttentionBackend. FLASH keeps a block's output, rows x head_dim x 4 bytes, in the caches beside a tile, and takes
// no bias or mask, as PyTorch's does not. All three take whatever else AttentionTraits names: window, softcap, ALiBi,
// both alignments, and a v_head_dim that differs from head_dim.
constexpr AttentionLimitsTable kLimits = {{
    {kAnyHeadDim, true, true},  // MATH
    {256, false, false},        // FLASH
    {kAnyHeadDim, true, true},  // EFFICIENT
}};

}  // namespace

bool SupportsAttention(const DeviceContext* /*context*/, AttentionBackend backend, const AttentionTraits& traits,
                       std::vector<std::string>* reasons) {
  AttentionRefusals refuse(backend, "cpu", reasons);
  AddShapeRules(traits, &refuse);
  AddLimits(kLimits, backend, traits, &refuse);
  AddScoreRules(traits, &refuse);
  return refuse.supported();
}

}  // namespace dunlin::kernels::cpu

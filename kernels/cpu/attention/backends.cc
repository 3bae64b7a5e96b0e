// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/attention/backends.h"

#include <algorithm>
#include <iterator>

namespace dunlin::kernels::cpu {
namespace {

constexpr AttentionAlgorithm kFlash = {FlashWorkspace, RunFlash};
constexpr AttentionAlgorithm kEfficient = {EfficientWorkspace, RunEfficient};

// MATH multiplies codes as floats, exactly: the oracle of what rounds queries and weights to BF16. FLASH keeps a
// block's output, rows x head_dim x 4 bytes, in the caches beside a tile, and takes no bias or mask, as PyTorch's does
// not. All three take whatever else AttentionTraits names: window, softcap, ALiBi, both alignments, and a v_head_dim
// that differs from head_dim.
constexpr AttentionBackendRow kBackends[] = {
    {.backend = AttentionBackend::kMath,
     .limits = {kAnyHeadDim, true, true},
     .exact_codes = true,
     .paged = {MathWorkspace, RunMath},
     .dense = {DenseMathWorkspace, RunDenseMath},
     .dense_block_rows = nullptr},
    {.backend = AttentionBackend::kFlash,
     .limits = {512, false, false},
     .exact_codes = false,
     .paged = kFlash,
     .dense = kFlash,
     .dense_block_rows = FlashBlockRows},
    {.backend = AttentionBackend::kEfficient,
     .limits = {kAnyHeadDim, true, true},
     .exact_codes = false,
     .paged = kEfficient,
     .dense = kEfficient,
     .dense_block_rows = [](const WorkspaceNeed&) { return kBlockRows; }},
};

}  // namespace

const AttentionBackendRow* FindBackend(AttentionBackend backend) {
  const auto* found = std::find_if(std::begin(kBackends), std::end(kBackends),
                                   [backend](const AttentionBackendRow& row) { return row.backend == backend; });
  return found == std::end(kBackends) ? nullptr : found;
}

AttentionLimitsTable BackendLimits() {
  AttentionLimitsTable limits{};
  for (const AttentionBackendRow& row : kBackends) limits[static_cast<size_t>(row.backend)] = row.limits;
  return limits;
}

}  // namespace dunlin::kernels::cpu

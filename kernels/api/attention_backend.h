// SPDX-License-Identifier: Apache-2.0
// The attention backends: three implementations of one function, chosen per request. MATH: unfused, the reference of
// the others. FLASH: tiled, online softmax with a running rescale. EFFICIENT: fixed-size key chunks, each reduced on
// its own, merged in ascending order. What a backend takes is the device's answer: DeviceOps::supports_attention.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/api/choice_table.h"

namespace dunlin::kernels {

enum class AttentionBackend : uint8_t { kMath, kFlash, kEfficient };
inline constexpr int kNumAttentionBackends = 3;

struct AttentionBackendTraits {
  AttentionBackend backend;
  const char* name;   // in requests, commands, metrics and messages; the config key is attention.enable_<name>
  const char* label;  // in prose
  size_t auto_rank;   // AUTO takes the backend of the lowest rank that is supported
};
inline constexpr AttentionBackendTraits kAttentionBackendTable[kNumAttentionBackends] = {
    {AttentionBackend::kMath, "math", "MATH", 2},
    {AttentionBackend::kFlash, "flash", "FLASH", 0},
    {AttentionBackend::kEfficient, "efficient", "EFFICIENT", 1},
};
static_assert(IsChoiceTable(kAttentionBackendTable, &AttentionBackendTraits::backend));

// The order in which AUTO tries them.
inline constexpr auto kAutoOrder = OrderByAutoRank(kAttentionBackendTable, &AttentionBackendTraits::backend);

constexpr const AttentionBackendTraits& Traits(AttentionBackend backend) {
  return kAttentionBackendTable[static_cast<size_t>(backend)];
}
constexpr const char* Name(AttentionBackend backend) {
  return Traits(backend).name;
}

}  // namespace dunlin::kernels

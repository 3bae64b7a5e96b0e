// SPDX-License-Identifier: Apache-2.0
// The kinds of devices that a model can be served on; kernels/api/device.h opens one.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/api/choice_table.h"

namespace dunlin::kernels {

enum class DeviceKind : uint8_t { kCpu, kCuda };
inline constexpr int kNumDeviceKinds = 2;

struct DeviceKindTraits {
  DeviceKind kind;
  const char* name;   // in configs, requests, commands and messages
  const char* label;  // in prose
  size_t auto_rank;   // "auto" takes the kind of the lowest rank that opens
};
inline constexpr DeviceKindTraits kDeviceKindTable[kNumDeviceKinds] = {
    {DeviceKind::kCpu, "cpu", "CPU", 1},
    {DeviceKind::kCuda, "cuda", "CUDA", 0},
};
static_assert(IsChoiceTable(kDeviceKindTable, &DeviceKindTraits::kind));

// The order in which "auto" tries them; the last one is the CPU, which always opens.
inline constexpr auto kDeviceAutoOrder = OrderByAutoRank(kDeviceKindTable, &DeviceKindTraits::kind);
static_assert(kDeviceAutoOrder.back() == DeviceKind::kCpu);

constexpr const DeviceKindTraits& Traits(DeviceKind kind) {
  return kDeviceKindTable[static_cast<size_t>(kind)];
}
constexpr const char* Name(DeviceKind kind) {
  return Traits(kind).name;
}

}  // namespace dunlin::kernels

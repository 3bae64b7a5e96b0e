// SPDX-License-Identifier: Apache-2.0
// A device that keeps every packed weight as plain FP32 rows, so that tests can read back what was packed where.
// It can run out of memory, or fail, on demand. No arithmetic.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "kernels/api/device.h"

namespace dunlin::engine {

struct PlainDeviceState {
  size_t bytes_limit = SIZE_MAX;  // allocate returns null beyond
  size_t bytes_held = 0;
  int packs_until_failure = -1;  // pack_weight fails when it reaches 0
  int num_packs = 0;
  void (*on_pack)(void*) = nullptr;  // called before each pack
  void* on_pack_argument = nullptr;
};

// state outlives the device.
std::unique_ptr<kernels::Device> MakePlainDevice(PlainDeviceState* state);

// Element [row, column] of a weight that this device packed.
float ElementOf(const kernels::PackedWeight& weight, int64_t row, int64_t column);

}  // namespace dunlin::engine

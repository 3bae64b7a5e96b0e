// SPDX-License-Identifier: Apache-2.0
// What kernels and their launches depend on of a device. Host code.
#pragma once

#include <cstdint>

namespace dunlin::kernels::cuda {

// sm_version and block_shared_bytes choose kernels; the number of multiprocessors divides work and changes no bit.
struct DeviceShape {
  int32_t multiprocessors;
  int32_t block_shared_bytes;       // of shared memory, at most
  int32_t sm_version;               // 90 for compute capability 9.0
  uint64_t left_out_attention = 0;  // check bits of attention kernels that failed their check here

  // Blocks that fill the device: two for each SM. With fewer, a task's keys are divided.
  int64_t blocks_to_fill() const { return int64_t{2} * multiprocessors; }
};

}  // namespace dunlin::kernels::cuda

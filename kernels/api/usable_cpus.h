// SPDX-License-Identifier: Apache-2.0
// How many compute threads the CPU device has by itself. Any thread.
#pragma once

namespace dunlin::kernels {

// What 0 stands for in DeviceOptions::num_threads: the processors that this process may use, by its affinity and the
// CPU quotas of its control groups, rounded up. At least 1.
int UsableCpus();

}  // namespace dunlin::kernels

// SPDX-License-Identifier: Apache-2.0
// A device that computes nothing: it logs each operation as a line of text, can fail one on demand, and can refuse
// attention backends. For tests of the operations that the runtime issues.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "kernels/api/device.h"

namespace dunlin::engine {

struct FakeDeviceLog {
  int32_t one_token_sequences = 0;  // of the last attention call
  int32_t attention_rows = 0;       // the same
  int32_t num_pages = 0;
  std::vector<std::string> lines;
  int fail_at = -1;              // index of the line whose operation returns kDeviceError
  size_t bytes_left = SIZE_MAX;  // allocate returns null beyond
  size_t bytes_held = 0;
  bool refuses_graphs = false;  // end_graph returns null
};

struct FakeSupport {
  // Why a backend refuses every shape; one that is not here takes all.
  std::map<kernels::AttentionBackend, std::string> refusals;
  bool gemm_fuses = false;
  bool attention_fuses = false;
  bool graphs = false;
};

// log and support outlive the device.
std::unique_ptr<kernels::Device> MakeFakeDevice(FakeDeviceLog* log, const FakeSupport* support);

}  // namespace dunlin::engine

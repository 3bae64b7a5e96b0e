// A device that computes nothing: it writes down each operation as a line of text, may be told to fail one, and may
// refuse attention backends. For tests of what the runtime asks of a device.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kernels/api/device.h"

namespace dunlin::engine {

struct FakeDeviceLog {
  std::vector<std::string> lines;
  int fail_at = -1;              // index of the line whose operation returns kDeviceError
  size_t bytes_left = SIZE_MAX;  // allocate returns null beyond
  size_t bytes_held = 0;
};

// backend and the reason it gives for refusing every shape; "" supports all.
struct FakeSupport {
  std::string flash;
  std::string efficient;
  std::string math;
  bool gemm_fuses = false;
  bool attention_fuses = false;
};

// log and support outlive the device.
std::unique_ptr<kernels::Device> MakeFakeDevice(FakeDeviceLog* log, const FakeSupport* support);

}  // namespace dunlin::engine

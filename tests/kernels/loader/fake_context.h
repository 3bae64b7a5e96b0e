// SPDX-License-Identifier: Apache-2.0
// The state of an open fake device, the CPU device behind it, and waiting for enqueued work.
#pragma once

#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <memory>
#include <string>

#include "kernels/api/device.h"
#include "kernels/shared/memory_count.h"
#include "tests/kernels/loader/fake_stream.h"
#include "tests/kernels/loader/fake_tuning.h"

namespace dunlin::kernels {

inline bool Idle() {
  return std::getenv(kFakeIdle) != nullptr;
}

struct FakeContext {
  FakeStream stream;
  PinnedRanges pinned;
  MemoryCount memory;
  std::atomic<bool> failed{false};
  FakeTuning tuning;
  bool graphs = true;  // DeviceOptions::cuda_graphs
};

// The CPU device behind the fake one.
inline Device& Cpu() {
  static std::string error;
  static const std::unique_ptr<Device> device = OpenDevice(DeviceKind::kCpu, {}, &error);
  return *device;
}

inline FakeContext& Of(DeviceContext* context) {
  return *reinterpret_cast<FakeContext*>(context);
}

inline bool HasRoom(DeviceContext* context, size_t bytes) {
  const char* limit = std::getenv(kFakeMemoryBytes);
  return limit == nullptr || Of(context).memory.Read().bytes_held + bytes <= std::strtoull(limit, nullptr, 10);
}

// Failures surface when work is waited for, as on a real device; afterwards everything is refused.
inline KernelStatus Waited(DeviceContext* context, KernelStatus status) {
  const char* file = std::getenv(kFakeFailFile);
  const bool fails = file != nullptr && access(file, F_OK) == 0;
  if (fails || status != KernelStatus::kOk) Of(context).failed = true;
  return Of(context).failed ? KernelStatus::kDeviceError : KernelStatus::kOk;
}

inline void HangWhileToldTo() {
  const char* file = std::getenv(kFakeHangFile);
  while (file != nullptr && access(file, F_OK) == 0) usleep(5000);
}

inline KernelStatus Synchronize(DeviceContext* context) {
  HangWhileToldTo();
  return Waited(context, Of(context).stream.DoAll());
}

}  // namespace dunlin::kernels

// SPDX-License-Identifier: Apache-2.0
// The fake device's events: positions in its stream.
#pragma once

#include <cstdint>

#include "tests/kernels/loader/fake_context.h"

namespace dunlin::kernels {

// An event is the number of operations before it.
inline DeviceEvent* CreateEvent(DeviceContext* /*context*/) {
  return reinterpret_cast<DeviceEvent*>(new uint64_t(0));
}

inline void DestroyEvent(DeviceContext* /*context*/, DeviceEvent* event) {
  delete reinterpret_cast<uint64_t*>(event);
}

inline KernelStatus RecordEvent(DeviceContext* context, DeviceEvent* event) {
  *reinterpret_cast<uint64_t*>(event) = Of(context).stream.num_added();
  return Of(context).failed ? KernelStatus::kDeviceError : KernelStatus::kOk;
}

inline KernelStatus WaitEvent(DeviceContext* context, DeviceEvent* event) {
  HangWhileToldTo();
  return Waited(context, Of(context).stream.DoFirst(*reinterpret_cast<uint64_t*>(event)));
}

}  // namespace dunlin::kernels

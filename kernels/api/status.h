// The result of a kernel launch. Kernels never throw and never abort on data; what a launch returns is one of these.
#pragma once

#include <cstdint>

namespace dunlin::kernels {

enum class [[nodiscard]] KernelStatus : uint8_t{
    kOk,
    kInvalidArgument,  // a parameter breaks the contract of its struct; nothing was written
    kUnsupported,      // a combination that Supports() refuses; nothing was written
    kOutOfMemory,      // the workspace given is smaller than the planned size
    kDeviceError,      // the device failed; its context can no longer be trusted
};

constexpr const char* Name(KernelStatus status) {
  switch (status) {
    case KernelStatus::kOk:
      return "ok";
    case KernelStatus::kInvalidArgument:
      return "invalid argument";
    case KernelStatus::kUnsupported:
      return "unsupported";
    case KernelStatus::kOutOfMemory:
      return "workspace too small";
    case KernelStatus::kDeviceError:
      return "device error";
  }
  return "?";
}

}  // namespace dunlin::kernels

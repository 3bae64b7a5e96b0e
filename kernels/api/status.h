// SPDX-License-Identifier: Apache-2.0
// The result of a kernel launch. Kernels never throw and never abort on data.
#pragma once

#include <cstdint>

namespace dunlin::kernels {

enum class [[nodiscard]] KernelStatus : uint8_t{
    kOk,
    kInvalidArgument,  // a parameter breaks the contract of its struct; nothing was written
    kUnsupported,      // a combination that supports_attention, gemm_fuses or attention_fuses refuses; nothing written
    kOutOfMemory,      // the workspace is smaller than the planned size
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

// SPDX-License-Identifier: Apache-2.0
// A kernel's status as a status of the engine.
#pragma once

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "kernels/api/status.h"

namespace dunlin::engine {

// INTERNAL for anything but kOk: "copy of logits failed: device error".
inline absl::Status DeviceStatus(kernels::KernelStatus status, const char* what) {
  if (status == kernels::KernelStatus::kOk) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(what, " failed: ", kernels::Name(status)));
}

}  // namespace dunlin::engine

// SPDX-License-Identifier: Apache-2.0
// Whether an engine accepts new requests. The state only ever moves down this list; kFailed and kStopped are final.
#pragma once

#include <cstdint>

#include "absl/status/status.h"

namespace dunlin::engine {

enum class AcceptState : uint8_t { kAccepting, kDraining, kFailed, kStopped };

// OK when accepting; INTERNAL when the device failed, else UNAVAILABLE, with the reason.
absl::Status CheckAccepting(AcceptState state);

}  // namespace dunlin::engine

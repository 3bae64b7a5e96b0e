// Whether an engine takes new requests. A door only ever closes further; kFailed and kStopped are final.
#pragma once

#include <cstdint>

#include "absl/status/status.h"

namespace dunlin::engine {

enum class Door : uint8_t { kOpen, kDraining, kFailed, kStopped };

// OK when open; UNAVAILABLE with the reason otherwise.
absl::Status CheckDoor(Door door);

}  // namespace dunlin::engine

// SPDX-License-Identifier: Apache-2.0
// Where an engine reads the time; its schedulers get it as an argument.
#pragma once

#include "engine/request/types.h"

namespace dunlin::engine {

// Monotonic nanoseconds. Any thread; neither blocks nor allocates.
using Clock = TimeNs (*)();

}  // namespace dunlin::engine

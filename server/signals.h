// SIGTERM and SIGINT as something to wait for. Block first, before any thread is started, so that every thread inherits
// the mask; then only Wait receives them.
#pragma once

#include "absl/time/time.h"

namespace dunlin::server {

// Blocks SIGTERM and SIGINT in this thread and those it starts; ignores SIGPIPE.
void BlockStopSignals();

// Waits for one of them; false when `timeout` passed first.
bool WaitForStopSignal(absl::Duration timeout);

}  // namespace dunlin::server

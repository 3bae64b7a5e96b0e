// SPDX-License-Identifier: Apache-2.0
// The last resort against a thread that is stuck (in a device, in a write to a pipe, in a destructor): a timer of the
// kernel's that ends the process, whatever its threads do. Source: setitimer(2), ITIMER_REAL.
// Thread rule: one thread at a time. SIGALRM must not be blocked in every thread.
#pragma once

#include "absl/time/time.h"

namespace dunlin::server {

// After `limit`, > 0, the process ends with this exit status; nothing is flushed. A later call replaces an earlier one.
void ExitAfter(absl::Duration limit, int status);

}  // namespace dunlin::server

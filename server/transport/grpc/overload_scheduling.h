// SPDX-License-Identifier: Apache-2.0
// Keeps gRPC's threads from displacing the compute threads while calls are refused. Each refusal wakes one of gRPC's
// threads, thousands a second, and a compute thread that loses its core holds up all others. Under SCHED_BATCH a thread
// that wakes does not displace a running one; it works through what has gathered when its turn comes, some milliseconds
// later. Needs no privilege. Worth 19% of the goodput at 20 times the knee (328 requests/s instead of 276, server on
// one Zen 5 core; docs/decisions.md). Thread rule: any thread, which it changes.
#pragma once

#include "engine/types.h"
#include "server/serving/overload.h"

namespace dunlin::server {

// SCHED_BATCH for the calling thread while the overload is recent, else SCHED_OTHER. A thread of another policy, or on
// a system that does not allow it, stays as it is.
void UseBatchSchedulingWhenOverloaded(const Overload& overload, engine::TimeNs now);

}  // namespace dunlin::server

// SPDX-License-Identifier: Apache-2.0
// Keeps gRPC's threads from preempting the compute threads while calls are refused. Each refusal wakes one of gRPC's
// threads, thousands of times per second, and a compute thread that loses its core delays all others. Under SCHED_BATCH
// a waking thread does not preempt a running one; it handles the accumulated events when its turn comes, some
// milliseconds later. Needs no privilege. Raises goodput at 20 times the knee by 19% (328 requests/s instead of 276,
// server on one Zen 5 core; docs/decisions.md). Thread rule: any thread; it changes the calling thread.
#pragma once

#include "engine/request/types.h"
#include "server/serving/core/overload.h"

namespace dunlin::server {

// Sets the calling thread to SCHED_BATCH while the overload is recent, else to SCHED_OTHER. No effect on a thread with
// another policy, or if the system does not allow it.
void UseBatchSchedulingWhenOverloaded(const Overload& overload, engine::TimeNs now);

}  // namespace dunlin::server

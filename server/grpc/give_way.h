// Makes room for the engine while calls are refused. gRPC's threads then wake thousands of times a second, for one
// refusal each, and each time take a processor from a compute thread whose caches they spoil; the other compute threads
// wait for that one. Under SCHED_BATCH a thread that wakes does not displace another: it works off what has gathered
// when its turn comes, some milliseconds later. Needs no privilege. Thread rule: any thread, which it changes.
#pragma once

#include "engine/types.h"
#include "server/pressure.h"

namespace dunlin::server {

// SCHED_BATCH for the calling thread while the pressure is high, else SCHED_OTHER. A thread of another policy, or a
// system that does not allow it, stays as it is.
void GiveWayUnder(const Pressure& pressure, engine::TimeNs now);

}  // namespace dunlin::server

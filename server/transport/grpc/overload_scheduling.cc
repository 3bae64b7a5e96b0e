// SPDX-License-Identifier: Apache-2.0
#include "server/transport/grpc/overload_scheduling.h"

#include <sched.h>

namespace dunlin::server {

void UseBatchSchedulingWhenOverloaded(const Overload& overload, engine::TimeNs now) {
  const int policy = overload.recent(now) ? SCHED_BATCH : SCHED_OTHER;
  const int present = sched_getscheduler(0);
  if (present == policy || (present != SCHED_BATCH && present != SCHED_OTHER)) return;
  const sched_param no_priority{};
  (void)sched_setscheduler(0, policy, &no_priority);
}

}  // namespace dunlin::server

#include "server/grpc/give_way.h"

#include <sched.h>

namespace dunlin::server {

void GiveWayUnder(const Pressure& pressure, engine::TimeNs now) {
  const int wanted = pressure.high(now) ? SCHED_BATCH : SCHED_OTHER;
  const int present = sched_getscheduler(0);
  if (present == wanted || (present != SCHED_BATCH && present != SCHED_OTHER)) return;
  const sched_param no_priority{};
  (void)sched_setscheduler(0, wanted, &no_priority);
}

}  // namespace dunlin::server

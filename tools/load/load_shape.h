// SPDX-License-Identifier: Apache-2.0
// How a run loads the server, and for how long.
#pragma once

#include <cstdint>

#include "tools/load/arrivals.h"

namespace dunlin::tools::load {

struct LoadShape {
  double rate = 0;  // open loop: requests a second; 0: closed loop
  ArrivalKind arrivals = ArrivalKind::kPoisson;
  int64_t burst = 1;
  int64_t concurrency = 1;   // closed loop: requests in flight at any time
  int64_t num_requests = 0;  // stop sending after this many; 0: no limit. At least one of this and duration_s is set
  double duration_s = 0;     // stop sending after this time; 0: no limit
  double warmup_s = 0;       // requests sent during it are not counted anywhere
  double drain_s = 30;       // then requests still in flight are abandoned
  int32_t cancel_after_tokens = 0;  // 0: not by tokens
  int64_t cancel_after_ms = 0;      // 0: not by time
  double cancel_fraction = 1;       // of the requests, if either is set
  int64_t max_errors = -1;          // more failed requests than this end the run; -1: no limit
  uint64_t seed = 0;
};

}  // namespace dunlin::tools::load

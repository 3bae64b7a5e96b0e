// SPDX-License-Identifier: Apache-2.0
// Gives memory that the process has freed back to the system. The allocator keeps what requests leave behind, hundreds
// of megabytes after a flood of large texts, spread over the arenas of all threads: docs/decisions.md has the
// measurement. Thread rule: one thread.
#pragma once

#include <cstddef>
#include <functional>

#include "engine/request/types.h"

namespace dunlin::server {

// The thresholds of malloc, which otherwise grow to tens of megabytes with the largest allocation that is freed: larger
// ones are mapped alone, and the end of an arena is given back, small allocations too. Where the process's addresses
// are limited, so are its arenas. To be called before there are threads.
void SetMallocThresholds();

// What lies between allocations in use is given back by malloc_trim. That takes some 10 ms per 100 MB, and what is
// needed again must be mapped again, so it waits until nothing is in progress, or for a minute. What is freed later
// does not show in the resident size: as long as that is over the least that it was, giving back is tried again, at
// growing intervals of up to a minute.
class FreeMemory {
 public:
  // resident_bytes: of the process at the moment. give_back: malloc_trim.
  FreeMemory(std::function<size_t()> resident_bytes, std::function<void()> give_back);

  // To be called a few times a second. idle: no request is in progress.
  void Look(bool idle, engine::TimeNs now);

 private:
  const std::function<size_t()> resident_bytes_;
  const std::function<void()> give_back_;
  size_t least_bytes_ = 0;  // ever resident
  size_t left_bytes_ = 0;   // resident after the last time
  engine::TimeNs last_ = 0;
  engine::TimeNs pause_;  // until the next time, unless the size grows
};

}  // namespace dunlin::server

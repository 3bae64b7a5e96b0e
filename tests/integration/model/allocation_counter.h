// SPDX-License-Identifier: Apache-2.0
// Counts calls of malloc and its kin (operator new included) by interposing them. Linked only into tests that use it.
// Under a sanitizer, which owns malloc, nothing is counted: AllocationCounterWorks() is false.
#pragma once

#include <cstdint>

namespace dunlin::engine {

bool AllocationCounterWorks();

// Counts from construction to count(); one at a time in a process.
class AllocationCounter {
 public:
  enum class Threads { kAll, kAllButThis };
  explicit AllocationCounter(Threads threads);
  ~AllocationCounter();
  AllocationCounter(const AllocationCounter&) = delete;
  AllocationCounter& operator=(const AllocationCounter&) = delete;
  int64_t count() const;
};

}  // namespace dunlin::engine

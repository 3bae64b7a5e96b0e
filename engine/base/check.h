// SPDX-License-Identifier: Apache-2.0
// DUNLIN_CHECK: a broken invariant ends the process, in release builds too. Bad input and device errors are never
// broken invariants: those travel as absl::Status. Does not allocate; any thread.
#pragma once

#include <cstdio>
#include <cstdlib>

namespace dunlin::engine::internal {

[[noreturn]] inline void CheckFailed(const char* file, int line, const char* condition, const char* why) {
  std::fprintf(stderr, "%s:%d: broken invariant: %s (%s)\n", file, line, condition, why);
  std::abort();
}

}  // namespace dunlin::engine::internal

// `why` is a string literal: what would be wrong if the condition were false.
#define DUNLIN_CHECK(condition, why)                                                \
  do {                                                                              \
    if (!(condition)) [[unlikely]]                                                  \
      ::dunlin::engine::internal::CheckFailed(__FILE__, __LINE__, #condition, why); \
  } while (false)

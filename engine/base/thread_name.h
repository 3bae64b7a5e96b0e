// SPDX-License-Identifier: Apache-2.0
// The name of a thread, as top -H, gdb and perf show it; docs/architecture.md lists them. Called by the thread itself
// as it begins, so that it never runs without.
#pragma once

#include <pthread.h>

#include <cstddef>
#include <cstdio>

namespace dunlin::engine {

inline constexpr size_t kThreadNameSize = 16;  // Linux's, with the zero at its end

template <size_t kSize>
void NameThread(const char (&name)[kSize]) {
  static_assert(kSize <= kThreadNameSize, "Linux takes names of 15 bytes");
  pthread_setname_np(pthread_self(), name);
}

// "text-3". A name that becomes too long loses its end.
inline void NameThread(const char* name, int number) {
  char numbered[kThreadNameSize];
  std::snprintf(numbered, sizeof numbered, "%s-%d", name, number);
  pthread_setname_np(pthread_self(), numbered);
}

}  // namespace dunlin::engine

// SPDX-License-Identifier: Apache-2.0
#include "server/process/free_memory.h"

#include <malloc.h>
#include <sys/resource.h>

#include <algorithm>
#include <utility>

namespace dunlin::server {
namespace {

constexpr size_t kGrowth = size_t{8} << 20;  // less is not worth the work
constexpr int kMapFromBytes = 1 << 20;
constexpr int kTrimFromBytes = 4 << 20;
// An arena maps 64 MiB when it is made: a 64th of the addresses at most, with one for each of so many bytes of them.
constexpr rlim_t kAddressesPerArena = rlim_t{4} << 30;
constexpr engine::TimeNs kLeastPause = 1'000'000'000;
constexpr engine::TimeNs kLongestPause = 60 * kLeastPause;

// Where addresses are limited (ulimit -v), the arenas of all threads could take them all, several times.
void LimitArenas() {
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return;
  constexpr rlim_t kMany = 1024;
  mallopt(M_ARENA_MAX, static_cast<int>(std::clamp<rlim_t>(limit.rlim_cur / kAddressesPerArena, 1, kMany)));
}

}  // namespace

void SetMallocThresholds() {
  LimitArenas();
  mallopt(M_MMAP_THRESHOLD, kMapFromBytes);
  mallopt(M_TRIM_THRESHOLD, kTrimFromBytes);
  mallopt(M_MXFAST, 0);
}

FreeMemory::FreeMemory(std::function<size_t()> resident_bytes, std::function<void()> give_back)
    : resident_bytes_(std::move(resident_bytes)), give_back_(std::move(give_back)), pause_(kLeastPause) {}

void FreeMemory::Look(bool idle, engine::TimeNs now) {
  if (now - last_ < (idle ? kLeastPause : kLongestPause)) return;
  const size_t bytes = resident_bytes_();
  least_bytes_ = least_bytes_ == 0 ? bytes : std::min(least_bytes_, bytes);
  if (bytes - least_bytes_ < kGrowth) return;
  const bool has_grown = bytes >= left_bytes_ + kGrowth;
  if (!has_grown && now - last_ < pause_) return;
  give_back_();
  last_ = now;
  left_bytes_ = resident_bytes_();
  least_bytes_ = std::min(least_bytes_, left_bytes_);
  const bool has_helped = left_bytes_ + kGrowth <= bytes;
  pause_ = has_grown || has_helped ? kLeastPause : std::min(2 * pause_, kLongestPause);
}

}  // namespace dunlin::server

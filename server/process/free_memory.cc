// SPDX-License-Identifier: Apache-2.0
#include "server/process/free_memory.h"

#include <algorithm>
#include <utility>

namespace dunlin::server {
namespace {

constexpr size_t kGrowth = size_t{8} << 20;  // less is not worth the work
constexpr engine::TimeNs kPauseIdle = 1'000'000'000;
constexpr engine::TimeNs kPauseBusy = 60 * kPauseIdle;

}  // namespace

FreeMemory::FreeMemory(std::function<size_t()> resident_bytes, std::function<void()> give_back)
    : resident_bytes_(std::move(resident_bytes)), give_back_(std::move(give_back)) {}

void FreeMemory::Look(bool idle, engine::TimeNs now) {
  if (now - last_ < (idle ? kPauseIdle : kPauseBusy)) return;
  const size_t bytes = resident_bytes_();
  least_bytes_ = least_bytes_ == 0 ? bytes : std::min(least_bytes_, bytes);
  if (bytes - least_bytes_ < kGrowth) return;
  give_back_();
  last_ = now;
  least_bytes_ = resident_bytes_();
}

}  // namespace dunlin::server

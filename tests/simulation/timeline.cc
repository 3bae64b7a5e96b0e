// SPDX-License-Identifier: Apache-2.0
#include "tests/simulation/timeline.h"

#include <algorithm>

namespace dunlin::simulation {
namespace {

using Kind = Happening::Kind;

constexpr int32_t kTicks = 300;  // in which calls come

// One in `one_in` runs has it; `end` comes some time later.
struct Chance {
  Kind kind;
  int32_t one_in;
  Kind end;
};
constexpr Chance kChances[] = {
    {Kind::kPauseAbort, 8, Kind::kResume},     {Kind::kPauseWait, 6, Kind::kResume},
    {Kind::kPauseKeep, 6, Kind::kResume},      {Kind::kSuspend, 5, Kind::kUnsuspend},
    {Kind::kClearCache, 3, Kind::kClearCache}, {Kind::kChangeQuota, 2, Kind::kChangeQuota},
    {Kind::kReload, 3, Kind::kClearCache},     {Kind::kDrain, 8, Kind::kClearCache},
    {Kind::kStop, 8, Kind::kClearCache},
};

}  // namespace

std::vector<Happening> MakeTimeline(Dice* dice, const std::vector<PlannedRequest>& requests) {
  std::vector<Happening> timeline;
  for (size_t i = 0; i < requests.size(); ++i) {
    timeline.push_back({requests[i].request.arrival, Kind::kArrival, i});
    if (requests[i].cancel_at != engine::kNoDeadline) timeline.push_back({requests[i].cancel_at, Kind::kCancel, i});
  }
  for (const Chance& chance : kChances) {
    if (!dice->OneIn(chance.one_in)) continue;
    const int32_t at = dice->Between(1, kTicks);
    timeline.push_back({at * kTick, chance.kind});
    timeline.push_back({(at + dice->Between(0, 60)) * kTick, chance.end});
  }
  std::stable_sort(timeline.begin(), timeline.end(),
                   [](const Happening& a, const Happening& b) { return a.at < b.at; });
  return timeline;
}

bool Reloads(const std::vector<Happening>& timeline) {
  return std::any_of(timeline.begin(), timeline.end(),
                     [](const Happening& happening) { return happening.kind == Happening::Kind::kReload; });
}

FakeRankOptions DrawRanks(Dice* dice, bool may_fail) {
  FakeRankOptions ranks;
  ranks.num_ranks = dice->Between(2, 4);
  ranks.odd_rank = dice->Between(0, ranks.num_ranks - 1);
  ranks.fault_layer = dice->Between(0, kFakeLayers - 1);
  ranks.slow = dice->OneIn(2);
  if (dice->OneIn(2)) ranks.stall_at = dice->Between(0, 20);
  if (may_fail) ranks.fail_at = dice->Between(0, 40);
  return ranks;
}

}  // namespace dunlin::simulation

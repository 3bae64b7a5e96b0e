// SPDX-License-Identifier: Apache-2.0
// What happens in simulated runs, counted: a range of seeds is worth something only where everything happens.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "engine/scheduler/tenants.h"

namespace dunlin::simulation {

enum class Event : uint8_t {
  kRuns,
  kRequests,
  kSteps,
  kMixedSteps,
  kPreemptions,
  kPrefixHits,
  kSlidingPreemptions,
  kSlidingPrefixHits,
  kRecurrentPreemptions,
  kRecurrentPrefixHits,
  kRecurrentFollowed,
  kRecurrentAccepted,
  kSlid,
  kFollowed,
  kPlannedAhead,
  kForced,
  kAccepted,
  kRejected,
  kCacheCleared,
  kAwaitedPages,
  kPoolsTooSmall,
  // Of the level "server".
  kAdmitted,
  kRefusedRequests,
  kRefusedBytes,
  kRefusedBytesOfCaller,
  kRefusedSuspended,
  kRefusedClosed,
  kRefusedTenantShare,
  kRefusedOutputBytes,
  kQuotaRequests,
  kQuotaTokens,
  kQuotaStreams,
  kQuotaChanged,
  kRefusedDeadline,
  kQueueFull,
  kNotAccepting,
  kCancelledBeforeSubmit,
  kStopStrings,
  kPausedAbort,
  kPausedWait,
  kPausedKeep,
  kReloads,
  kDrains,
  kStopsWithLive,
  kLaunchFailures,
  kCollectFailures,
  kRankFailures,
  kSlowRanks,
  kStalledRanks,
  kStalls,
  // Of the level "repository".
  kModelRequests,
  kModelWaits,
  kModelLoads,
  kModelSwaps,
  kModelFaults,
  kModelUnusedUnloads,
  kModelCallsRefused,
  kNumEvents
};
inline constexpr size_t kNumEvents = static_cast<size_t>(Event::kNumEvents);

struct EventTraits {
  Event event;
  const char* name;  // with its unit
};
inline constexpr EventTraits kEventTable[kNumEvents] = {
    {Event::kRuns, "runs"},
    {Event::kRequests, "requests"},
    {Event::kSteps, "steps"},
    {Event::kMixedSteps, "steps of several profiles"},
    {Event::kPreemptions, "preemptions"},
    {Event::kPrefixHits, "prefix hits, tokens"},
    {Event::kSlidingPreemptions, "preemptions, sliding windows"},
    {Event::kSlidingPrefixHits, "prefix hits, sliding windows, tokens"},
    {Event::kRecurrentPreemptions, "preemptions, recurrent"},
    {Event::kRecurrentPrefixHits, "prefix hits, recurrent, tokens"},
    {Event::kRecurrentFollowed, "waits for another's pages, recurrent"},
    {Event::kRecurrentAccepted, "guesses that count, recurrent"},
    {Event::kSlid, "pages outside a window given back"},
    {Event::kFollowed, "waits for another's pages"},
    {Event::kPlannedAhead, "tokens planned while they are drawn"},
    {Event::kForced, "forced tokens"},
    {Event::kAccepted, "accepted drafts, in tokens"},
    {Event::kRejected, "rejected drafts, in tokens"},
    {Event::kCacheCleared, "prefix cache cleared"},
    {Event::kAwaitedPages, "turns in which all wait for the pool to grow"},
    {Event::kPoolsTooSmall, "pools with less memory than planned"},
    {Event::kAdmitted, "calls admitted"},
    {Event::kRefusedRequests, "refused: requests"},
    {Event::kRefusedBytes, "refused: message bytes"},
    {Event::kRefusedBytesOfCaller, "refused: message bytes of the caller"},
    {Event::kRefusedSuspended, "refused: stalled"},
    {Event::kRefusedClosed, "refused: draining or failed"},
    {Event::kRefusedTenantShare, "refused: share of the tenant"},
    {Event::kRefusedOutputBytes, "refused: output bytes"},
    {Event::kQuotaRequests, "refused: requests a minute"},
    {Event::kQuotaTokens, "refused: tokens a minute"},
    {Event::kQuotaStreams, "refused: streams at once"},
    {Event::kQuotaChanged, "quotas changed"},
    {Event::kRefusedDeadline, "refused: deadline cannot be met"},
    {Event::kQueueFull, "refused: queue full"},
    {Event::kNotAccepting, "refused: engine stopped or failed"},
    {Event::kCancelledBeforeSubmit, "cancelled while tokenised"},
    {Event::kStopStrings, "stop strings found"},
    {Event::kPausedAbort, "pauses, abort"},
    {Event::kPausedWait, "pauses, wait"},
    {Event::kPausedKeep, "pauses, keep"},
    {Event::kReloads, "reloads"},
    {Event::kDrains, "drains"},
    {Event::kStopsWithLive, "stops with live requests"},
    {Event::kLaunchFailures, "device errors in launch"},
    {Event::kCollectFailures, "device errors in collect"},
    {Event::kRankFailures, "ranks that failed"},
    {Event::kSlowRanks, "runs with a slow rank"},
    {Event::kStalledRanks, "stalled ranks"},
    {Event::kStalls, "stalled steps"},
    {Event::kModelRequests, "requests that got their model"},
    {Event::kModelWaits, "requests that waited for a load"},
    {Event::kModelLoads, "versions that were served"},
    {Event::kModelSwaps, "of these in place of another"},
    {Event::kModelFaults, "loads that failed"},
    {Event::kModelUnusedUnloads, "models unloaded: idle, or for another's memory"},
    {Event::kModelCallsRefused, "calls that failed or were refused"},
};

struct SimulationStats {
  std::array<int64_t, kNumEvents> counts = {};                // [Event]
  std::array<int64_t, 16> ended_by = {};                      // [FinishReason]
  std::array<int64_t, engine::kNumProfiles> of_profile = {};  // requests that ended, [ProfileIndex]
  int64_t& operator[](Event event) { return counts[static_cast<size_t>(event)]; }
  int64_t operator[](Event event) const { return counts[static_cast<size_t>(event)]; }
};

}  // namespace dunlin::simulation

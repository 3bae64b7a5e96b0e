// SPDX-License-Identifier: Apache-2.0
#include "tests/simulation/repository_world.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "tests/simulation/fake_loading.h"

namespace dunlin::simulation {
namespace {

using EventKind = RepositoryEvent::Kind;

constexpr int32_t kEventTicks = 200;  // in which events come

RepositoryEvent AnyEvent(Dice* dice, const RepositoryWorkload& workload) {
  RepositoryEvent event;
  event.at = absl::UnixEpoch() + dice->Between(1, kEventTicks) * kRepositoryTick;
  event.model =
      workload.models[static_cast<size_t>(dice->Between(0, static_cast<int32_t>(workload.models.size()) - 1))].name;
  static constexpr EventKind kOthers[] = {
      EventKind::kLoad,   EventKind::kReload, EventKind::kReload, EventKind::kUnload, EventKind::kNewVersion,
      EventKind::kVanish, EventKind::kSighup, EventKind::kBreak,  EventKind::kMend,   EventKind::kNewVersion};
  if (dice->OneIn(3)) {
    event.kind = kOthers[dice->Between(0, static_cast<int32_t>(std::size(kOthers)) - 1)];
    if (event.kind == EventKind::kUnload && dice->OneIn(2)) event.kind = EventKind::kReload;
    if (dice->OneIn(20)) event.kind = EventKind::kStop;
    return event;
  }
  if (dice->OneIn(12)) {
    event.kind = EventKind::kEndIdleTime;
    return event;
  }
  event.holds = dice->Between(0, 30) * kRepositoryTick;
  if (dice->OneIn(4)) event.deadline = event.at + dice->Between(0, 30) * kRepositoryTick;
  if (dice->OneIn(4)) event.leaves = event.at + dice->Between(0, 30) * kRepositoryTick;
  return event;
}

}  // namespace

server::ModelSettings SettingsOf(const server::ModelSettings& model, int version) {
  server::ModelSettings settings = model;
  settings.source.path = absl::StrCat("/", model.name, "/", version);
  settings.values = absl::StrCat(settings.source.path, " ", settings.idle_unload_s);
  return settings;
}

RepositoryWorkload MakeRepositoryWorkload(Dice* dice, const std::vector<size_t>& left_out) {
  RepositoryWorkload workload;
  size_t sum = 0;
  size_t largest = 0;
  for (int32_t i = dice->Between(1, 4); i > 0; --i) {
    server::ModelSettings settings;
    settings.name = std::string(1, static_cast<char>('a' + i));
    settings.idle_unload_s = dice->OneIn(3) ? 0 : dice->Between(1, 4);
    settings.load_wait_ms = dice->Between(1, 40) * 100;
    settings.engine.max_queued_requests = dice->Between(1, 4);
    workload.models.push_back(SettingsOf(settings, 1));
    const size_t bytes = FakeLoading::BytesOf(workload.models.back().source.path);
    if (settings.idle_unload_s == 0) sum += bytes;
    if (settings.idle_unload_s > 0) largest = std::max(largest, bytes);
  }
  workload.limit = sum + largest + static_cast<size_t>(dice->Between(0, 6));
  for (int32_t i = dice->Between(4, 24); i > 0; --i) workload.events.push_back(AnyEvent(dice, workload));
  for (size_t i = 0; i < workload.events.size(); ++i) workload.events[i].index = i;
  std::erase_if(workload.events, [&left_out](const RepositoryEvent& event) {
    return std::binary_search(left_out.begin(), left_out.end(), event.index);
  });
  std::stable_sort(workload.events.begin(), workload.events.end(),
                   [](const RepositoryEvent& a, const RepositoryEvent& b) { return a.at < b.at; });
  return workload;
}

}  // namespace dunlin::simulation

// SPDX-License-Identifier: Apache-2.0
#include "engine/runtime/rank_links.h"

#include <utility>

namespace dunlin::engine {

std::vector<kernels::Device*> RankDevices(const Model& model) {
  std::vector<kernels::Device*> devices;
  devices.reserve(static_cast<size_t>(model.num_ranks()));
  for (int32_t rank = 0; rank < model.num_ranks(); ++rank) devices.push_back(model.of_rank(rank).device());
  return devices;
}

absl::StatusOr<std::unique_ptr<DeviceLinks>> LinkRanks(const Model& model, RankTeam* team) {
  absl::StatusOr<std::unique_ptr<DeviceLinks>> links = DeviceLinks::Link(RankDevices(model));
  if (links.ok()) team->group()->set_links(links->get());
  return links;
}

void NoteLinks(const DeviceLinks& links, std::string* notice) {
  if (!links.notice().empty()) *notice = links.notice();
}

void LinkBuffers(const std::vector<StepBuffers*>& ranks, RankTeam* team, DeviceLinks* links) {
  for (StepBuffers* of_rank : ranks) of_rank->Link(ranks, team->group(), links->get());
}

void EndLinkedRanks(const Model& model, DeviceLinks* links) {
  if (links == nullptr) return;
  links->Stop();
  for (const kernels::Device* device : RankDevices(model)) (void)device->ops->synchronize(device->context);
}

}  // namespace dunlin::engine

// SPDX-License-Identifier: Apache-2.0
// The links of a divided model whose ranks' devices have memory of their own (engine/parallel/device_links.h), as a
// runtime holds them. Thread rule: the thread that creates and destroys the runtime.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/model/model.h"
#include "engine/parallel/device_links.h"
#include "engine/parallel/rank_team.h"
#include "engine/runtime/step_buffers.h"

namespace dunlin::engine {

// By rank, as many as the model has.
std::vector<kernels::Device*> RankDevices(const Model& model);

// Null where the ranks share their memory. What fails in the team stops the links, too. Errors: as DeviceLinks::Link.
absl::StatusOr<std::unique_ptr<DeviceLinks>> LinkRanks(const Model& model, RankTeam* team);

// What a log should say of them, if anything.
void NoteLinks(const DeviceLinks& links, std::string* notice);

// Lets passes in the buffers of linked ranks, by rank, write each other's.
void LinkBuffers(const std::vector<StepBuffers*>& ranks, RankTeam* team, DeviceLinks* links);

// Before the ranks' memory is released: what is in flight ends. links: null: nothing is.
void EndLinkedRanks(const Model& model, DeviceLinks* links);

}  // namespace dunlin::engine

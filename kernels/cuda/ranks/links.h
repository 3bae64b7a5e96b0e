// SPDX-License-Identifier: Apache-2.0
// Linked ranks of the CUDA device (kernels/api/rank_links.h): devices that write each other's memory or, where they
// cannot, pinned memory of the host; the signals of each rank, and the host's word that ends all waiting. Thread rule:
// linked and unlinked by one thread at a time; StopRanks and the launches of a rank on any.
#pragma once

#include <cstdint>
#include <string>

#include "kernels/api/rank_links.h"
#include "kernels/cuda/device/context.h"
#include "kernels/cuda/ranks/stage_call.h"

namespace dunlin::kernels::cuda {

// Of one rank, in its device memory.
struct DeviceRank {
  RankCounts counts;
  RankSignals signals;                // of ranks that reach each other by peer memory
  StagedNote taken[kMaxLinkedRanks];  // of those that do by the host's
};

// Of one rank, in memory of the host.
struct HostRank {
  alignas(128) RankSignals signals;
  alignas(128) StagedNote notes[2];
  alignas(128) float columns[2][kStageFloats];
};

struct LinkedRanks {
  int32_t num_ranks = 0;
  DeviceContext* contexts[kMaxLinkedRanks] = {};
  DeviceRank* own[kMaxLinkedRanks] = {};
  HostRank* host = nullptr;  // [num_ranks], pinned, which all devices read and write; null: they reach each other
  uint32_t* stop = nullptr;  // the same of one word
};

// "1, 2", the other devices whose memory this one writes, or "none"; empty where there are none but it.
std::string PeersOf(int32_t device);

// As DeviceOps.
RankLinks* LinkRanks(kernels::DeviceContext* const* ranks, int32_t num_ranks, std::string* reason);
void UnlinkRanks(RankLinks* links);
void StopRanks(RankLinks* links);
KernelStatus ShareColumns(DeviceContext* context, const ShareColumnsParams& params);

}  // namespace dunlin::kernels::cuda

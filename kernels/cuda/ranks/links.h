// SPDX-License-Identifier: Apache-2.0
// Linked ranks of the CUDA device (kernels/api/rank_links.h): devices that write each other's memory, the signals of
// each rank, and the host's word that ends all waiting. Thread rule: linked and unlinked by one thread at a time;
// StopRanks and the launches of a rank on any.
#pragma once

#include <cstdint>
#include <string>

#include "kernels/api/rank_links.h"
#include "kernels/cuda/device/context.h"
#include "kernels/cuda/ranks/share_call.h"

namespace dunlin::kernels::cuda {

struct LinkedRanks {
  int32_t num_ranks = 0;
  DeviceContext* contexts[kMaxLinkedRanks] = {};
  RankSignals* signals[kMaxLinkedRanks] = {};  // each in its rank's device memory
  uint32_t* stop = nullptr;                    // pinned host memory that all devices read
};

// As DeviceOps.
RankLinks* LinkRanks(kernels::DeviceContext* const* ranks, int32_t num_ranks, std::string* reason);
void UnlinkRanks(RankLinks* links);
void StopRanks(RankLinks* links);
KernelStatus ShareColumns(DeviceContext* context, const ShareColumnsParams& params);

}  // namespace dunlin::kernels::cuda

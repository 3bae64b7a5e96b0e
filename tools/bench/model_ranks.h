// SPDX-License-Identifier: Apache-2.0
// The devices of a model's ranks (`dunlin bench model --tensor N`), which share the session's threads.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/parallel/rank_devices.h"
#include "tools/bench/session.h"

namespace dunlin::tools::bench {

class ModelRanks {
 public:
  // With one rank: the session's device, which outlives this. Errors: of engine::OpenRankDevices.
  static absl::StatusOr<ModelRanks> Open(Session* session) {
    ModelRanks ranks(session->device());
    const BenchOptions& options = session->options();
    if (options.tensor == 1) return ranks;
    auto opened = engine::OpenRankDevices(*session->device(), options.device_options, options.tensor);
    if (!opened.ok()) return opened.status();
    ranks.opened_ = *std::move(opened);
    return ranks;
  }

  kernels::Device* first() const { return opened_.empty() ? whole_ : opened_.front().get(); }
  // The devices of all ranks, with `first` in place of the first.
  std::vector<kernels::Device*> With(kernels::Device* first) const {
    std::vector<kernels::Device*> devices = {first};
    for (size_t rank = 1; rank < opened_.size(); ++rank) devices.push_back(opened_[rank].get());
    return devices;
  }

 private:
  explicit ModelRanks(kernels::Device* whole) : whole_(whole) {}

  kernels::Device* whole_;
  std::vector<std::unique_ptr<kernels::Device>> opened_;  // of several ranks
};

}  // namespace dunlin::tools::bench

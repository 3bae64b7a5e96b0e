// SPDX-License-Identifier: Apache-2.0
// Models of the goldens that are divided among ranks.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/model/load/model_source.h"
#include "engine/model/model.h"
#include "kernels/api/device.h"
#include "tests/integration/model/test_model.h"

namespace dunlin::engine {

// A model with the devices of its ranks; they outlive it.
struct RankedModel {
  std::vector<std::unique_ptr<kernels::Device>> devices;
  std::unique_ptr<Model> model;
};

// Dies with the reason when the model cannot be loaded. Each rank has num_threads threads.
RankedModel LoadRankedModel(const std::string& path, const std::string& cpu_variant, int num_threads, int32_t num_ranks,
                            const std::vector<Precision>& precisions);
// The same of all that the source says, but for its num_ranks.
RankedModel LoadRankedModel(ModelSource source, const std::string& cpu_variant, int num_threads, int32_t num_ranks);

// The same on the devices of a module, which are linked: as many as the machine has, in turn. The first one opens.
RankedModel LoadLinkedModel(const Place& place, const std::string& path, int32_t num_ranks,
                            const std::vector<Precision>& precisions);
// The same of all that the source says, but for its num_ranks.
RankedModel LoadLinkedModel(const Place& place, ModelSource source, int32_t num_ranks);

// While it lives, ranks of the fake module are linked through memory of the host, for kNoPeersReason. on: false: they
// are not.
class WithoutPeers {
 public:
  explicit WithoutPeers(bool on = true);
  ~WithoutPeers();
  WithoutPeers(const WithoutPeers&) = delete;
  WithoutPeers& operator=(const WithoutPeers&) = delete;
};
inline constexpr char kNoPeersReason[] = "CUDA devices 0 and 1 cannot access each other's memory";

// Whether the model of a directory or file is divided among so many ranks; false: *reason says why not.
bool Divides(const std::string& path, int32_t num_ranks, std::string* reason);

}  // namespace dunlin::engine

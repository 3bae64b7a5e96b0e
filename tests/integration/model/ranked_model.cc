// SPDX-License-Identifier: Apache-2.0
#include "tests/integration/model/ranked_model.h"

#include <cstdio>
#include <cstdlib>
#include <utility>

#include "engine/model/load/load_model.h"
#include "engine/model/load/opened_model.h"
#include "engine/model/spec/rank_config.h"
#include "tests/kernels/loader/fake_cuda.h"
#include "tests/kernels/loader/open_module.h"

namespace dunlin::engine {
namespace {

[[noreturn]] void DieBecause(const std::string& why) {
  std::fprintf(stderr, "%s\n", why.c_str());
  std::abort();
}

RankedModel Load(ModelSource source, std::vector<std::unique_ptr<kernels::Device>> opened) {
  RankedModel ranked;
  ranked.devices = std::move(opened);
  std::vector<kernels::Device*> devices;
  for (const auto& device : ranked.devices) devices.push_back(device.get());
  source.num_ranks = static_cast<int32_t>(devices.size());
  absl::StatusOr<std::unique_ptr<Model>> model = LoadModel(source, devices);
  if (!model.ok()) DieBecause(model.status().ToString());
  ranked.model = *std::move(model);
  return ranked;
}

}  // namespace

RankedModel LoadRankedModel(const std::string& path, const std::string& cpu_variant, int num_threads, int32_t num_ranks,
                            const std::vector<Precision>& precisions) {
  ModelSource source;
  source.path = path;
  source.precisions = precisions;
  return LoadRankedModel(std::move(source), cpu_variant, num_threads, num_ranks);
}

RankedModel LoadRankedModel(ModelSource source, const std::string& cpu_variant, int num_threads, int32_t num_ranks) {
  std::vector<std::unique_ptr<kernels::Device>> devices;
  for (int32_t rank = 0; rank < num_ranks; ++rank) {
    std::string error;
    devices.push_back(kernels::OpenDevice(kernels::DeviceKind::kCpu, {num_threads, cpu_variant}, &error));
    if (devices.back() == nullptr) DieBecause(error);
  }
  return Load(std::move(source), std::move(devices));
}

RankedModel LoadLinkedModel(const Place& place, const std::string& path, int32_t num_ranks,
                            const std::vector<Precision>& precisions) {
  ModelSource source;
  source.path = path;
  source.precisions = precisions;
  return LoadLinkedModel(place, std::move(source), num_ranks);
}

RankedModel LoadLinkedModel(const Place& place, ModelSource source, int32_t num_ranks) {
  std::vector<std::unique_ptr<kernels::Device>> devices;
  int32_t number = 0;
  while (static_cast<int32_t>(devices.size()) < num_ranks) {
    std::string error;
    auto device = kernels::OpenModule(place.module, &error, number++);
    if (device != nullptr) {
      devices.push_back(std::move(device));
    } else if (number == 1) {
      DieBecause(error);
    } else {
      number = 0;  // the machine has no more
    }
  }
  return Load(std::move(source), std::move(devices));
}

WithoutPeers::WithoutPeers(bool on) {
  if (on) setenv(kernels::kFakeNoPeers, kNoPeersReason, 1);
}

WithoutPeers::~WithoutPeers() {
  unsetenv(kernels::kFakeNoPeers);
}

bool Divides(const std::string& path, int32_t num_ranks, std::string* reason) {
  ModelSource source;
  source.path = path;
  const absl::StatusOr<OpenedModel> opened = OpenModelSource(source, false);
  if (!opened.ok()) DieBecause(opened.status().ToString());
  const absl::Status status = CheckDivisible(opened->parsed.config, num_ranks);
  *reason = std::string(status.message());
  return status.ok();
}

}  // namespace dunlin::engine

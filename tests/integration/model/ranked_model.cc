// SPDX-License-Identifier: Apache-2.0
#include "tests/integration/model/ranked_model.h"

#include <cstdio>
#include <cstdlib>
#include <utility>

#include "engine/model/load/load_model.h"
#include "engine/model/load/opened_model.h"
#include "engine/model/spec/rank_config.h"

namespace dunlin::engine {
namespace {

[[noreturn]] void DieBecause(const std::string& why) {
  std::fprintf(stderr, "%s\n", why.c_str());
  std::abort();
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
  RankedModel ranked;
  std::vector<kernels::Device*> devices;
  for (int32_t rank = 0; rank < num_ranks; ++rank) {
    std::string error;
    ranked.devices.push_back(kernels::OpenDevice(kernels::DeviceKind::kCpu, {num_threads, cpu_variant}, &error));
    if (ranked.devices.back() == nullptr) DieBecause(error);
    devices.push_back(ranked.devices.back().get());
  }
  source.num_ranks = num_ranks;
  absl::StatusOr<std::unique_ptr<Model>> model = LoadModel(source, devices);
  if (!model.ok()) DieBecause(model.status().ToString());
  ranked.model = *std::move(model);
  return ranked;
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

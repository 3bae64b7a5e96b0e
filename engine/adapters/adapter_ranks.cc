// SPDX-License-Identifier: Apache-2.0
#include "engine/adapters/adapter_ranks.h"

#include "engine/model/spec/rank_config.h"

namespace dunlin::engine {
namespace {

std::vector<Segment> WholeSegments(const AdaptableModule& module) {
  std::vector<Segment> segments;
  for (const ModuleRows& rows : module.rows) {
    if (!segments.empty() && segments.back().first_column + segments.back().count == rows.row_begin) {
      segments.back().count += rows.num_rows;
    } else {
      segments.push_back({rows.row_begin, rows.num_rows, rows.row_begin});
    }
  }
  return segments;
}

}  // namespace

std::vector<Segment> SegmentsOf(const Model& model, const AdaptableModule& module) {
  std::vector<Segment> whole = WholeSegments(module);
  if (model.num_ranks() == 1) return whole;
  std::vector<Segment> segments;
  for (int32_t rank = 0; rank < model.num_ranks(); ++rank) {
    const ModelConfig& config = model.of_rank(rank).rank_config();
    for (const Segment& all : whole) {
      for (const RankRows& own : RankRowsIn(config, {module.slot, module.layer}, all.first_column, all.count)) {
        segments.push_back({all.first_column + own.begin, own.count, own.target, rank});
      }
    }
  }
  return segments;
}

bool HasCopies(const Model& model) {
  return model.num_ranks() > 1 && model.device()->ops->link_ranks != nullptr;
}

std::vector<kernels::Device*> AdapterDevices(const Model& model) {
  std::vector<kernels::Device*> devices = {model.device()};
  if (!HasCopies(model)) return devices;
  for (int32_t rank = 1; rank < model.num_ranks(); ++rank) devices.push_back(model.of_rank(rank).device());
  return devices;
}

}  // namespace dunlin::engine

// SPDX-License-Identifier: Apache-2.0
#include "engine/model/load/inspect.h"

#include <algorithm>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "engine/model/load/check_source.h"
#include "engine/model/load/gguf_model.h"
#include "engine/model/load/opened_model.h"
#include "engine/model/spec/attention_shape.h"
#include "engine/model/spec/rank_config.h"
#include "engine/model/weights/weight_storage.h"
#include "kernels/api/kv_layout.h"

namespace dunlin::engine {

namespace {

std::vector<ModelConfig> RankConfigs(const ModelConfig& config, int32_t num_ranks) {
  std::vector<ModelConfig> ranks;
  for (int32_t rank = 0; rank < num_ranks; ++rank) ranks.push_back(RankConfig(config, rank, num_ranks));
  return ranks;
}

absl::StatusOr<size_t> SumOverRanks(std::span<const ModelConfig> ranks,
                                    absl::FunctionRef<absl::StatusOr<size_t>(const ModelConfig& rank)> bytes_of) {
  size_t sum = 0;
  for (const ModelConfig& rank : ranks) {
    const absl::StatusOr<size_t> bytes = bytes_of(rank);
    if (!bytes.ok()) return bytes.status();
    sum += *bytes;
  }
  return sum;
}

// Of one rank of a pair of matrices. copies: of the first one, which all ranks of a divided model read.
int64_t FeaturesOf(const AdaptableModule& module, int32_t copies, std::span<const ModelConfig> ranks) {
  int64_t panels = 0;  // each range of columns of each rank has its own, the last not full
  for (size_t i = 0; i < module.rows.size();) {
    const int64_t begin = module.rows[i].row_begin;
    int64_t end = begin;
    for (; i < module.rows.size() && module.rows[i].row_begin == end; ++i) end += module.rows[i].num_rows;
    for (const ModelConfig& rank : ranks) {
      for (const RankRows& own : RankRowsIn(rank, {module.slot, module.layer}, begin, end - begin)) {
        panels += kernels::LowRankPanels(own.count);
      }
    }
  }
  return copies * kernels::LowRankStride(module.in_features) + panels * kernels::kLowRankPanel;
}

void SetAdaptableFeatures(const AdaptableModules& adaptable, int32_t copies, std::span<const ModelConfig> ranks,
                          ModelSummary* summary) {
  int64_t one_by_one = 0;
  int64_t stacked = 0;
  for (const AdaptableModule& module : adaptable.modules) {
    const int64_t features = FeaturesOf(module, copies, ranks);
    if (!IsOfExperts(module.projection)) {
      summary->adaptable_features += features;
    } else if (module.is_stack()) {
      stacked += module.num_experts * features;
    } else {
      one_by_one += features;
    }
  }
  summary->expert_features = std::max(one_by_one, stacked);
}

// In each precision that the device multiplies, of those in which an encoder of images is served.
absl::StatusOr<ImageEncoderSummary> SummaryOf(const OpenedModel& encoder, const kernels::DeviceOps& ops) {
  ImageEncoderSummary summary{.config = encoder.parsed.config, .num_parameters = CountParameters(encoder.parts)};
  const absl::StatusOr<size_t> vectors = VectorBytes(summary.config);
  if (!vectors.ok()) return vectors.status();
  for (const kernels::PrecisionTraits& row : kernels::kPrecisionTable) {
    if (!Multiplies(ops, row.precision) || !ServesImages(row.precision)) continue;
    const absl::StatusOr<size_t> matrices = MatrixBytes(summary.config, encoder.encodings, row.precision, ops);
    if (!matrices.ok()) return matrices.status();
    summary.weight_bytes[static_cast<size_t>(row.precision)] = *matrices + *vectors;
  }
  return summary;
}

absl::StatusOr<std::optional<ImageEncoderSummary>> InspectImageEncoder(ModelSource source,
                                                                       const kernels::DeviceOps& ops) {
  const absl::StatusOr<std::unique_ptr<TextFiles>> files = OpenModelFiles(source.path);
  if (!files.ok()) return files.status();
  const absl::StatusOr<std::optional<ParsedModel>> config = ReadImageEncoderConfig(**files);
  if (!config.ok()) return config.status();
  if (!config->has_value()) return std::nullopt;
  source.part = ModelPart::kImageEncoder;
  const absl::StatusOr<OpenedModel> encoder = OpenModelSource(source, false);
  if (!encoder.ok()) return encoder.status();
  return SummaryOf(*encoder, ops);
}

// One that cannot be read is none: the text model can be served without it.
void AddImageEncoder(const ModelSource& source, const kernels::DeviceOps& ops, ModelSummary* summary) {
  absl::StatusOr<std::optional<ImageEncoderSummary>> encoder = InspectImageEncoder(source, ops);
  if (!encoder.ok()) {
    summary->warnings.push_back(absl::StrCat("its encoder of images is not served: ", encoder.status().message()));
    return;
  }
  summary->image_encoder = *std::move(encoder);
  if (!summary->image_encoder.has_value()) return;
  std::erase_if(summary->skipped, [](const SkippedTensors& row) { return row.part == kVisionPart; });
}

}  // namespace

absl::StatusOr<ModelSummary> InspectModel(const ModelSource& source, const kernels::DeviceOps& ops) {
  absl::StatusOr<OpenedModel> model = OpenModelSource(source, false);
  if (!model.ok()) return model.status();
  ModelSummary summary;
  summary.config = std::move(model->parsed.config);
  summary.warnings = std::move(model->parsed.warnings);
  summary.skipped = std::move(model->skipped);
  summary.num_parameters = CountParameters(model->parts);
  summary.num_active_parameters = CountActiveParameters(summary.config, model->parts);
  if (absl::Status status = CheckDivisible(summary.config, source.num_ranks); !status.ok()) return status;
  const std::vector<ModelConfig> ranks = RankConfigs(summary.config, source.num_ranks);
  const absl::StatusOr<size_t> vector_bytes =
      SumOverRanks(ranks, [](const ModelConfig& rank) { return VectorBytes(rank); });
  if (!vector_bytes.ok()) return vector_bytes.status();
  summary.vector_bytes = *vector_bytes;
  SetAdaptableFeatures(model->adaptable, ops.link_ranks != nullptr ? source.num_ranks : 1, ranks, &summary);
  for (const kernels::PrecisionTraits& row : kernels::kPrecisionTable) {
    if (!Multiplies(ops, row.precision)) continue;
    const absl::StatusOr<size_t> bytes = SumOverRanks(
        ranks, [&](const ModelConfig& rank) { return MatrixBytes(rank, model->encodings, row.precision, ops); });
    if (!bytes.ok()) return bytes.status();
    summary.weight_bytes[static_cast<size_t>(row.precision)] = *bytes + *vector_bytes;
  }
  const std::optional<kernels::Precision> own = model->encodings.own_precision();
  summary.own_precision = own;
  if (own && Multiplies(ops, *own)) summary.own_formats = FormatBytes(summary.config, model->encodings, *own, ops);
  if (summary.config.text_part && !source.path.empty()) AddImageEncoder(source, ops, &summary);
  if (summary.config.is_encoder()) return summary;
  const std::vector<kernels::KvShape> shapes = KvShapesOf(summary.config);
  const auto num_groups = static_cast<size_t>(KvGroupsOf(summary.config).count());
  for (const kernels::DType dtype :
       {kernels::DType::kF32, kernels::DType::kF16, kernels::DType::kBF16, kernels::DType::kF8E4M3}) {
    if (dtype == kernels::DType::kF8E4M3 && shapes.front().values_in_keys) continue;  // PlanMemory refuses such pages
    summary.kv_bytes_per_token.push_back(
        {.dtype = dtype, .bytes_per_token = num_groups * kernels::KvBytesPerToken(KvLayoutOf(shapes, 0, dtype))});
  }
  return summary;
}

absl::StatusOr<std::optional<kernels::Precision>> OwnPrecisionOf(const ModelSource& source) {
  const absl::StatusOr<OpenedModel> model = OpenModelSource(source, false);
  if (!model.ok()) return model.status();
  return model->encodings.own_precision();
}

}  // namespace dunlin::engine

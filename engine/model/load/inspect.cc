// SPDX-License-Identifier: Apache-2.0
#include "engine/model/load/inspect.h"

#include <utility>

#include "absl/functional/function_ref.h"
#include "engine/model/load/opened_model.h"
#include "engine/model/spec/attention_shape.h"
#include "engine/model/spec/rank_config.h"
#include "engine/model/weights/weight_storage.h"
#include "kernels/api/kv_layout.h"

namespace dunlin::engine {

namespace {

absl::StatusOr<size_t> SumOverRanks(const ModelConfig& config, int32_t num_ranks,
                                    absl::FunctionRef<absl::StatusOr<size_t>(const ModelConfig& rank)> bytes_of) {
  size_t sum = 0;
  for (int32_t rank = 0; rank < num_ranks; ++rank) {
    const absl::StatusOr<size_t> bytes = bytes_of(RankConfig(config, rank, num_ranks));
    if (!bytes.ok()) return bytes.status();
    sum += *bytes;
  }
  return sum;
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
  const absl::StatusOr<size_t> vector_bytes =
      SumOverRanks(summary.config, source.num_ranks, [](const ModelConfig& rank) { return VectorBytes(rank); });
  if (!vector_bytes.ok()) return vector_bytes.status();
  summary.vector_bytes = *vector_bytes;
  const int32_t copies = ops.link_ranks != nullptr ? source.num_ranks : 1;  // of first matrices, which all ranks read
  for (const AdaptableModule& module : model->adaptable.modules) {
    if (IsOfExperts(module.projection) || module.projection == Projection::kHead) continue;
    summary.adaptable_features += int64_t{copies} * module.in_features;
    for (const ModuleRows& rows : module.rows) {
      // Each rank of a divided model has panels of its own, the last not full.
      summary.adaptable_features += rows.num_rows + (source.num_ranks - 1) * kernels::kLowRankPanel;
    }
  }
  for (const kernels::PrecisionTraits& row : kernels::kPrecisionTable) {
    if (!Multiplies(ops, row.precision)) continue;
    const absl::StatusOr<size_t> bytes = SumOverRanks(summary.config, source.num_ranks, [&](const ModelConfig& rank) {
      return MatrixBytes(rank, model->encodings, row.precision, ops);
    });
    if (!bytes.ok()) return bytes.status();
    summary.weight_bytes[static_cast<size_t>(row.precision)] = *bytes + *vector_bytes;
  }
  const std::optional<kernels::Precision> own = model->encodings.own_precision();
  summary.own_precision = own;
  if (own && Multiplies(ops, *own)) summary.own_formats = FormatBytes(summary.config, model->encodings, *own, ops);
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

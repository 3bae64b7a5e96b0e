#include "engine/model/inspect.h"

#include <utility>

#include "engine/model/open_source.h"
#include "engine/model/weight_storage.h"
#include "kernels/api/kv_layout.h"

namespace dunlin::engine {

absl::StatusOr<ModelSummary> InspectModel(const ModelSource& source, const kernels::DeviceOps& ops) {
  absl::StatusOr<OpenedModel> model = OpenModelSource(source, false);
  if (!model.ok()) return model.status();
  ModelSummary summary;
  summary.config = std::move(model->parsed.config);
  summary.warnings = std::move(model->parsed.warnings);
  summary.num_parameters = CountParameters(model->parts);
  const absl::StatusOr<size_t> vector_bytes = VectorBytes(summary.config);
  if (!vector_bytes.ok()) return vector_bytes.status();
  for (const kernels::PrecisionTraits& row : kernels::kPrecisionTable) {
    const absl::StatusOr<size_t> bytes = MatrixBytes(summary.config, model->forms, row.precision, ops);
    if (!bytes.ok()) return bytes.status();
    summary.weight_bytes[static_cast<size_t>(row.precision)] = *bytes + *vector_bytes;
  }
  if (summary.config.is_encoder()) return summary;
  const kernels::KvShape shape = {.num_layers = summary.config.num_layers,
                                  .num_kv_heads = summary.config.num_kv_heads,
                                  .head_dim = summary.config.head_dim};
  for (const kernels::DType dtype :
       {kernels::DType::kF32, kernels::DType::kF16, kernels::DType::kBF16, kernels::DType::kF8E4M3}) {
    summary.kv_bytes_per_token.push_back(
        {.dtype = dtype, .bytes_per_token = kernels::KvBytesPerToken(kernels::MakeKvLayout(dtype, shape))});
  }
  return summary;
}

}  // namespace dunlin::engine

// SPDX-License-Identifier: Apache-2.0
#include "engine/model/load/model_builder.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/check.h"
#include "engine/base/checked_math.h"
#include "engine/model/load/check_source.h"
#include "engine/model/weights/weight_scales.h"
#include "engine/model/weights/weight_storage.h"
#include "kernels/api/float_formats.h"

namespace dunlin::engine {
namespace {

absl::Status DeviceError(const char* what, kernels::KernelStatus status) {
  return absl::InternalError(absl::StrCat(what, " failed on the device: ", kernels::Name(status)));
}

// [channels, taps] to [taps, channels].
void TransposeTaps(const WeightPart& part, float* weights) {
  const auto channels = static_cast<size_t>(part.shape.front());
  const auto taps = static_cast<size_t>(part.shape.back());
  const std::vector<float> stored(weights, weights + channels * taps);
  for (size_t channel = 0; channel < channels; ++channel) {
    for (size_t tap = 0; tap < taps; ++tap) weights[tap * channels + channel] = stored[channel * taps + tap];
  }
}

absl::Status FillVector(const WeightPlace& place, float value, Model* rank, PrecisionWeights* weights) {
  const std::vector<float> values(
      static_cast<size_t>(ShapeOf(rank->rank_config(), place.slot, place.layer).out_features), value);
  auto* vector = const_cast<float*>(*VectorOf(weights, place, false));
  const kernels::Device& device = *rank->device();
  const kernels::KernelStatus status =
      device.ops->copy_to_device(device.context, vector, values.data(), values.size() * sizeof(float));
  return status == kernels::KernelStatus::kOk ? absl::OkStatus() : DeviceError(RowOf(place.slot).name, status);
}

}  // namespace

ModelBuilder::ModelBuilder(const OpenedModel& opened, Model* model)
    : opened_(opened), source_(*opened.tensors), ranks_{model} {
  for (const std::unique_ptr<Model>& rank : model->other_ranks_) ranks_.push_back(rank.get());
  if (ranks_.size() == 1) return;
  const auto num_ranks = static_cast<int32_t>(ranks_.size());
  const std::vector<std::vector<int>> cpus = CpusOfRanks(num_ranks);
  bound_ = std::make_unique<ScopedCpus>(cpus.front());
  threads_ =
      std::make_unique<RankThreads>(num_ranks, [cpus](int32_t rank) { BindToCpus(cpus[static_cast<size_t>(rank)]); });
}

absl::StatusOr<std::unique_ptr<Model>> ModelBuilder::Build(const OpenedModel& opened, const ModelSource& source,
                                                           const std::vector<kernels::Device*>& devices,
                                                           const std::atomic<bool>* stop) {
  DUNLIN_CHECK(devices.size() == static_cast<size_t>(source.num_ranks), "a device for each rank");
  const ModelConfig& config = opened.parsed.config;
  const std::vector<Precision>& precisions = source.precisions;
  absl::Status served = CheckSource(source, config, *devices.front()->ops);
  served.Update(CheckDivisible(config, source.num_ranks));
  if (!served.ok()) return served;
  std::unique_ptr<Model> model;
  for (int32_t i = 0; i < source.num_ranks; ++i) {
    std::unique_ptr<Model> rank(new Model());
    rank->config_ = RankConfig(config, i, source.num_ranks);
    rank->precisions_ = precisions;
    rank->int8_inputs_ = source.int8_inputs;
    rank->device_ = devices[static_cast<size_t>(i)];
    rank->own_precision_ = opened.encodings.own_precision();
    if (i == 0) {
      model = std::move(rank);
    } else {
      model->other_ranks_.push_back(std::move(rank));
    }
  }
  model->warnings_ = opened.parsed.warnings;
  model->adaptable_ = opened.adaptable;
  model->num_parameters_ = CountParameters(opened.parts);
  model->num_active_parameters_ = CountActiveParameters(config, opened.parts);
  ModelBuilder builder(opened, model.get());
  if (absl::Status status = builder.LoadScales(); !status.ok()) return status;
  const auto own = opened.encodings.own_precision();
  const bool codes = own && std::find(precisions.begin(), precisions.end(), *own) != precisions.end();
  WeightReader reader(builder.source_, opened.parts, codes);  // starts reading while memory is allocated
  absl::Status prepared = builder.ForEachRank([&](Model* rank) {
    absl::Status status = builder.Allocate(rank);
    return status.ok() ? builder.FillFixedNorms(rank) : status;
  });
  if (!prepared.ok()) return prepared;
  if (absl::Status status = builder.LoadParts(&reader, stop); !status.ok()) return status;
  absl::Status synced = builder.ForEachRank([&](Model* rank) {
    if (!opened.calibrated.empty()) rank->input_scales_ = opened.calibrated;
    const kernels::KernelStatus status = rank->device_->ops->synchronize(rank->device_->context);
    return status == kernels::KernelStatus::kOk ? absl::OkStatus() : DeviceError("loading", status);
  });
  if (!synced.ok()) return synced;
  if (absl::Status status = opened.tensors->CheckUnchanged(); !status.ok()) return status;
  return model;
}

absl::Status ModelBuilder::ForEachRank(absl::FunctionRef<absl::Status(Model* rank)> body) {
  if (threads_ == nullptr) return body(ranks_.front());
  std::vector<absl::Status> statuses(ranks_.size());
  threads_->Run([&](int32_t rank) { statuses[static_cast<size_t>(rank)] = body(ranks_[static_cast<size_t>(rank)]); });
  absl::Status first;
  for (const absl::Status& status : statuses) first.Update(status);
  return first;
}

absl::StatusOr<std::byte*> ModelBuilder::AllocateBlock(size_t bytes, size_t planned_bytes, Model* rank) {
  if (bytes == 0) return nullptr;
  void* memory = rank->device_->ops->allocate(rank->device_->context, bytes);
  if (memory == nullptr) {
    return absl::ResourceExhaustedError(absl::StrCat("no memory for ", bytes, " bytes of weights (", planned_bytes,
                                                     " planned for ", rank->precisions_.size(),
                                                     " precision(s)); list fewer in models[].precisions"));
  }
  rank->allocations_.push_back({.memory = memory, .bytes = bytes});
  return static_cast<std::byte*>(memory);
}

absl::Status ModelBuilder::Allocate(Model* rank) {
  const kernels::DeviceOps& ops = *rank->device_->ops;
  const absl::StatusOr<size_t> vector_bytes = VectorBytes(rank->config_);
  if (!vector_bytes.ok()) return vector_bytes.status();
  std::vector<size_t> matrix_bytes;
  CheckedU64 planned(*vector_bytes);
  for (const Precision precision : rank->precisions_) {
    const absl::StatusOr<size_t> bytes = MatrixBytes(rank->config_, opened_.encodings, precision, ops);
    if (!bytes.ok()) return bytes.status();
    matrix_bytes.push_back(*bytes);
    planned += *bytes;
  }
  if (!planned.ok()) return absl::ResourceExhaustedError("the model's weights need more than 2^64 bytes");
  const absl::StatusOr<std::byte*> vectors = AllocateBlock(*vector_bytes, planned.value(), rank);
  if (!vectors.ok()) return vectors.status();
  for (size_t i = 0; i < matrix_bytes.size(); ++i) {
    const absl::StatusOr<std::byte*> matrices = AllocateBlock(matrix_bytes[i], planned.value(), rank);
    if (!matrices.ok()) return matrices.status();
    PrecisionWeights& weights = rank->weights_.emplace_back();
    PlaceWeights(rank->config_, opened_.encodings, rank->precisions_[i], rank->int8_inputs_, ops, *matrices, *vectors,
                 &weights);
    weights.input_amax_limit = opened_.parsed.quantization.input_amax_limit;
    rank->weight_bytes_.push_back(matrix_bytes[i] + *vector_bytes);
  }
  return absl::OkStatus();
}

absl::Status ModelBuilder::LoadParts(WeightReader* reader, const std::atomic<bool>* stop) {
  while (true) {
    if (stop != nullptr && stop->load(std::memory_order_relaxed)) return absl::CancelledError("loading was stopped");
    const absl::StatusOr<std::optional<WeightRows>> rows = reader->Next();
    if (!rows.ok()) return rows.status();
    if (!rows->has_value()) return absl::OkStatus();
    absl::Status status = (*rows)->part->is_vector()  ? LoadVector(**rows)
                          : (*rows)->codes != nullptr ? LoadCodes(**rows)
                                                      : LoadMatrix(**rows);
    if (!status.ok()) return status;
  }
}

// Packs the rows into every precision.
absl::Status ModelBuilder::LoadMatrix(const WeightRows& rows) {
  const WeightPart& part = *rows.part;
  const kernels::DType dtype = *source_.Find(part.tensor)->dtype->loadable;
  if (part.scales.weight != nullptr) {
    ExpandScales(rows);
    return PackRows(rows, rows.data, dtype);
  }
  const int64_t num_scaled = std::clamp(part.scaled_rows - part.row_begin - rows.first_row, int64_t{0}, rows.num_rows);
  if (num_scaled == 0) return PackRows(rows, rows.data, dtype);
  const int64_t columns = part.transposed ? part.shape[0] : part.shape[1];
  Widen(rows.data, dtype, static_cast<size_t>(rows.num_rows * columns));
  for (int64_t row = 0; row < num_scaled; ++row) {
    for (int64_t column = 0; column < columns; ++column) {
      widened_[static_cast<size_t>(part.transposed ? column * rows.num_rows + row : row * columns + column)] *=
          part.scale;
    }
  }
  return PackRows(rows, widened_.data(), kernels::DType::kF32);
}

// Packs the rows' codes into the precisions that keep them, and their values into the others.
absl::Status ModelBuilder::LoadCodes(const WeightRows& rows) {
  const WeightPart& part = *rows.part;
  const auto keeps_codes = [&](const kernels::PackedWeight& weight) {
    return Traits(weight.format).scales != kernels::GroupScales::kNone &&
           kernels::Holds(weight.format, rows.codes->traits);
  };
  std::vector<PrecisionWeights>& first = ranks_.front()->weights_;
  const WeightPlace one{part.slot, part.layer};  // all of a layer have one format
  if (!std::ranges::all_of(first, [&](auto& weights) { return keeps_codes(*MatrixOf(&weights, one)); })) {
    widened_.resize(std::max(widened_.size(), rows.codes->codes.size()));
    rows.codes->Dequantize(widened_.data());
  }
  return ForEachRank([&](Model* rank) {
    const kernels::Device& device = *rank->device_;
    for (const RankRows& own :
         RankRowsIn(rank->config_, part.place(), part.row_begin + rows.first_row, rows.num_rows)) {
      const kernels::WeightCodes codes = rows.codes->View(own.begin);
      for (PrecisionWeights& weights : rank->weights_) {
        kernels::PackedWeight* weight = MatrixOf(&weights, PlaceInRank(rank->config_, part.place()));
        kernels::PackWeightParams params = {.weight = weight,
                                            .source = nullptr,
                                            .source_dtype = kernels::DType::kF32,
                                            .row_stride = part.shape[1],
                                            .column_stride = 1,
                                            .row_begin = own.target,
                                            .num_rows = own.count};
        if (keeps_codes(*weight)) {
          params.codes = &codes;
        } else {
          params.source = widened_.data() + own.begin * part.shape[1];
        }
        const kernels::KernelStatus status = device.ops->pack_weight(device.context, params);
        if (status != kernels::KernelStatus::kOk) return DeviceError(part.tensor.c_str(), status);
      }
    }
    return absl::OkStatus();
  });
}

// Reads the weight and input scales of every FP8 part before the large reads start, so that none waits for those. The
// parts of a fused matrix share one input, whose scale is the largest of theirs.
absl::Status ModelBuilder::LoadScales() {
  for (const WeightPart& part : opened_.parts) {
    if (part.scales.weight == nullptr) continue;
    absl::StatusOr<std::vector<float>> scales = ReadScales(source_, *part.scales.weight);
    if (!scales.ok()) return scales.status();
    scales_[&part] = *std::move(scales);
    if (part.scales.input == nullptr) continue;
    const absl::StatusOr<std::vector<float>> input = ReadScales(source_, *part.scales.input);
    if (!input.ok()) return input.status();
    for (Model* rank : ranks_) {
      float& stored = rank->input_scales_[{part.slot, part.layer}];
      stored = std::max(stored, input->front());
    }
  }
  return absl::OkStatus();
}

// Expands the scales of FP8 rows to one line per row, multiplied by the factor of scaled rows.
void ModelBuilder::ExpandScales(const WeightRows& rows) {
  const WeightPart& part = *rows.part;
  const std::vector<float>& scales = scales_.at(&part);
  const int64_t per_row = kernels::ScalesPerRow(part.scales.block, part.shape[1]);
  row_scales_.resize(static_cast<size_t>(rows.num_rows * per_row));
  for (int64_t row = 0; row < rows.num_rows; ++row) {
    const int64_t scale_row = (part.source_row + rows.first_row + row) / part.scales.rows_per_scale;
    const float factor = part.row_begin + rows.first_row + row < part.scaled_rows ? part.scale : 1.0F;
    for (int64_t i = 0; i < per_row; ++i) {
      row_scales_[static_cast<size_t>(row * per_row + i)] =
          scales[static_cast<size_t>(scale_row * per_row + i)] * factor;
    }
  }
}

// Packs rows with `values` of `dtype` in the layout of rows.data.
absl::Status ModelBuilder::PackRows(const WeightRows& rows, const void* values, kernels::DType dtype) {
  const WeightPart& part = *rows.part;
  return ForEachRank([&](Model* rank) {
    absl::Status status;
    for (const RankRows& own :
         RankRowsIn(rank->config_, part.place(), part.row_begin + rows.first_row, rows.num_rows)) {
      if (status.ok()) status = PackPart(rows, values, dtype, own, rank);
    }
    return status;
  });
}

absl::Status ModelBuilder::PackPart(const WeightRows& rows, const void* values, kernels::DType dtype,
                                    const RankRows& own, Model* rank) const {
  const WeightPart& part = *rows.part;
  const kernels::Device& device = *rank->device_;
  const bool quantized = dtype == kernels::DType::kF8E4M3;
  const int64_t row_stride = part.transposed ? 1 : part.shape[1];
  const int64_t scales_per_row = quantized ? kernels::ScalesPerRow(part.scales.block, part.shape[1]) : 0;
  const auto* source = static_cast<const std::byte*>(values);
  for (PrecisionWeights& weights : rank->weights_) {
    const kernels::PackWeightParams params = {
        .weight = MatrixOf(&weights, PlaceInRank(rank->config_, part.place())),
        .source = source + own.begin * row_stride * static_cast<int64_t>(SizeOf(dtype)),
        .source_dtype = dtype,
        .row_stride = row_stride,
        .column_stride = part.transposed ? rows.num_rows : 1,
        .row_begin = own.target,
        .num_rows = own.count,
        .source_scales = quantized ? row_scales_.data() + own.begin * scales_per_row : nullptr,
        .source_scale_block = quantized ? part.scales.block : 0};
    const kernels::KernelStatus status = device.ops->pack_weight(device.context, params);
    if (status != kernels::KernelStatus::kOk) return DeviceError(part.tensor.c_str(), status);
  }
  return absl::OkStatus();
}

absl::Status ModelBuilder::LoadVector(const WeightRows& rows) {
  const WeightPart& part = *rows.part;
  const auto count = static_cast<size_t>(rows.num_rows);
  Widen(rows.data, *source_.Find(part.tensor)->dtype->loadable, count);
  const int64_t num_scaled = std::clamp(part.scaled_rows - part.row_begin, int64_t{0}, part.num_rows);
  for (int64_t i = 0; i < num_scaled; ++i) widened_[static_cast<size_t>(i)] *= part.scale;
  const ModelConfig& config = opened_.parsed.config;
  const NormSpec& norm = config.norm;
  if (IsNorm(part.slot) && !part.is_bias && (part.slot != WeightSlot::kFinalNorm || norm.final_offset)) {
    for (size_t i = 0; i < count; ++i) widened_[i] += norm.weight_offset;
  }
  if (IsConvolution(part.slot)) TransposeTaps(part, widened_.data());
  if (part.slot == WeightSlot::kDeltaRate || part.slot == WeightSlot::kMambaRate) {
    const bool log = part.slot == WeightSlot::kDeltaRate ? config.delta.log_rates : config.mamba.log_rates;
    for (size_t i = 0; i < count; ++i) widened_[i] = log ? std::exp(widened_[i]) : -widened_[i];
  }
  if (part.slot == WeightSlot::kMlpCurve && part.row_begin < 2) {  // the softplus
    widened_[0] = std::max(widened_[0], 0.0F) + std::log1p(std::exp(-std::abs(widened_[0])));
  }
  return ForEachRank([&](Model* rank) { return CopyVector(part, count, rank); });
}

// From widened_. Of a convolution a part has some channels of each tap.
absl::Status ModelBuilder::CopyVector(const WeightPart& part, size_t count, Model* rank) {
  // All precisions share the vectors, so the first precision's pointer serves all.
  auto* vector = const_cast<float*>(*VectorOf(&rank->weights_.front(), part.place(), part.is_bias));
  const kernels::Device& device = *rank->device_;
  const auto copy = [&](int64_t to, int64_t from, size_t num_floats) {
    const kernels::KernelStatus status =
        device.ops->copy_to_device(device.context, vector + to, widened_.data() + from, num_floats * sizeof(float));
    return status == kernels::KernelStatus::kOk ? absl::OkStatus() : DeviceError(part.tensor.c_str(), status);
  };
  const int64_t taps = IsConvolution(part.slot) ? part.shape.back() : 1;
  const int64_t all = ShapeOf(rank->config_, part.slot, part.layer).out_features / taps;
  const int64_t channels = static_cast<int64_t>(count) / taps;
  absl::Status status;
  for (const RankRows& own : RankRowsIn(rank->config_, part.place(), part.row_begin, part.num_rows)) {
    for (int64_t tap = 0; status.ok() && tap < taps; ++tap) {
      status =
          copy(tap * all + own.target / taps, tap * channels + own.begin / taps, static_cast<size_t>(own.count / taps));
    }
  }
  return status;
}

// The weights of norms that checkpoints do not have.
absl::Status ModelBuilder::FillFixedNorms(Model* rank) {
  const ModelConfig& config = rank->config_;
  PrecisionWeights* weights = &rank->weights_.front();
  if (config.embedding.norm && config.embedding.fixed_norm) {
    absl::Status status = FillVector({WeightSlot::kEmbeddingNorm}, 1.0F, rank, weights);
    if (!status.ok()) return status;
  }
  if (!(config.attention.fixed_query_norm > 0.0F)) return absl::OkStatus();
  for (int32_t layer = 0; layer < config.all_layers(); ++layer) {
    if (!HasSlot(config, WeightSlot::kQueryNorm, layer)) continue;
    absl::Status status = FillVector({WeightSlot::kQueryNorm, layer}, config.attention.fixed_query_norm, rank, weights);
    if (status.ok()) status = FillVector({WeightSlot::kKeyNorm, layer}, 1.0F, rank, weights);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

// Converts `count` values to FP32.
void ModelBuilder::Widen(const std::byte* values, kernels::DType dtype, size_t count) {
  widened_.resize(std::max(widened_.size(), count));
  if (dtype == kernels::DType::kF32) {
    std::memcpy(widened_.data(), values, count * sizeof(float));
    return;
  }
  for (size_t i = 0; i < count; ++i) {
    uint16_t bits;
    std::memcpy(&bits, values + i * sizeof(bits), sizeof(bits));
    widened_[i] = dtype == kernels::DType::kF16 ? kernels::Fp16ToFloat(bits) : kernels::Bf16ToFloat(bits);
  }
}

}  // namespace dunlin::engine

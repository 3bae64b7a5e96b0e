#include "engine/model/model_builder.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/checked_math.h"
#include "engine/model/weight_scales.h"
#include "engine/model/weight_storage.h"
#include "kernels/api/float_formats.h"

namespace dunlin::engine {
namespace {

// Rows are staged this many bytes at a time: far above the cost of a read call, far below any model.
constexpr int64_t kStagingBytes = int64_t{16} << 20;
// What the disk fetches while parts are packed: some hundred milliseconds of a fast one.
constexpr uint64_t kAheadBytes = uint64_t{256} << 20;
constexpr int64_t kRowMultiple = 192;  // chunks end between the panels of a packed layout, 48 or 64 rows each

uint64_t SizeOf(const TensorInfo& tensor) {
  return tensor.end - tensor.begin;
}

absl::Status DeviceError(const char* what, kernels::KernelStatus status) {
  return absl::InternalError(absl::StrCat(what, " failed on the device: ", kernels::Name(status)));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Model>> ModelBuilder::Build(const OpenedModel& opened,
                                                           const std::vector<Precision>& precisions,
                                                           kernels::Device* device) {
  std::unique_ptr<Model> model(new Model());
  model->config_ = opened.parsed.config;
  model->precisions_ = precisions;
  model->device_ = device;
  model->warnings_ = opened.parsed.warnings;
  model->num_parameters_ = CountParameters(opened.parts);
  ModelBuilder builder(opened, model.get());
  builder.ReadAhead();
  if (absl::Status status = builder.Allocate(); !status.ok()) return status;
  for (const WeightPart& part : opened.parts) {
    if (absl::Status status = builder.LoadPart(part); !status.ok()) return status;
    builder.bytes_ahead_ -= SizeOf(*builder.source_.Find(part.tensor));
    builder.ReadAhead();
  }
  if (!opened.calibrated.empty()) model->input_scales_ = opened.calibrated;
  const kernels::KernelStatus synced = device->ops->synchronize(device->context);
  if (synced != kernels::KernelStatus::kOk) return DeviceError("loading", synced);
  if (absl::Status status = opened.tensors->CheckUnchanged(); !status.ok()) return status;
  return model;
}

void ModelBuilder::ReadAhead() {
  for (; next_ahead_ < opened_.parts.size() && bytes_ahead_ < kAheadBytes; ++next_ahead_) {
    const TensorInfo& tensor = *source_.Find(opened_.parts[next_ahead_].tensor);
    source_.WillRead(tensor);
    bytes_ahead_ += SizeOf(tensor);
  }
}

absl::StatusOr<std::byte*> ModelBuilder::AllocateBlock(size_t bytes, size_t planned_bytes) {
  if (bytes == 0) return nullptr;
  void* memory = model_->device_->ops->allocate(model_->device_->context, bytes);
  if (memory == nullptr) {
    return absl::ResourceExhaustedError(absl::StrCat("no memory for ", bytes, " bytes of weights (", planned_bytes,
                                                     " planned for ", model_->precisions_.size(),
                                                     " precision(s)); list fewer in models[].precisions"));
  }
  model_->allocations_.push_back({.memory = memory, .bytes = bytes});
  return static_cast<std::byte*>(memory);
}

absl::Status ModelBuilder::Allocate() {
  const kernels::DeviceOps& ops = *model_->device_->ops;
  const absl::StatusOr<size_t> vector_bytes = VectorBytes(model_->config_);
  if (!vector_bytes.ok()) return vector_bytes.status();
  std::vector<size_t> matrix_bytes;
  CheckedU64 planned(*vector_bytes);
  for (const Precision precision : model_->precisions_) {
    const absl::StatusOr<size_t> bytes = MatrixBytes(model_->config_, opened_.forms, precision, ops);
    if (!bytes.ok()) return bytes.status();
    matrix_bytes.push_back(*bytes);
    planned += *bytes;
  }
  if (!planned.ok()) return absl::ResourceExhaustedError("the model's weights need more than 2^64 bytes");
  const absl::StatusOr<std::byte*> vectors = AllocateBlock(*vector_bytes, planned.value());
  if (!vectors.ok()) return vectors.status();
  for (size_t i = 0; i < matrix_bytes.size(); ++i) {
    const absl::StatusOr<std::byte*> matrices = AllocateBlock(matrix_bytes[i], planned.value());
    if (!matrices.ok()) return matrices.status();
    PrecisionWeights& weights = model_->weights_.emplace_back();
    PlaceWeights(model_->config_, opened_.forms, model_->precisions_[i], ops, *matrices, *vectors, &weights);
    weights.input_amax_limit = opened_.parsed.quantization.input_amax_limit;
    model_->weight_bytes_.push_back(matrix_bytes[i] + *vector_bytes);
  }
  return absl::OkStatus();
}

absl::Status ModelBuilder::LoadPart(const WeightPart& part) {
  const TensorInfo& tensor = *source_.Find(part.tensor);
  if (part.is_vector()) return LoadVector(part, tensor);
  if (part.scales.weight != nullptr) {
    absl::StatusOr<std::vector<float>> scales = ReadScales(source_, *part.scales.weight);
    if (!scales.ok()) return scales.status();
    scales_ = *std::move(scales);
    if (absl::Status status = LoadInputScale(part); !status.ok()) return status;
  }
  if (part.transposed) return LoadRows(part, tensor, 0, part.num_rows);  // a row is spread over the whole tensor
  const int64_t row_bytes = part.shape[1] * int64_t{tensor.dtype->bits} / 8;
  const int64_t chunk_rows = std::max(kStagingBytes / row_bytes / kRowMultiple, int64_t{1}) * kRowMultiple;
  for (int64_t row = 0; row < part.num_rows; row += chunk_rows) {
    absl::Status status = LoadRows(part, tensor, row, std::min(chunk_rows, part.num_rows - row));
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

// Rows [first_row, first_row + num_rows) of the part, into every precision.
absl::Status ModelBuilder::LoadRows(const WeightPart& part, const TensorInfo& tensor, int64_t first_row,
                                    int64_t num_rows) {
  const int64_t columns = part.transposed ? part.shape[0] : part.shape[1];
  const auto element_bytes = tensor.dtype->bits / 8;
  const auto count = static_cast<size_t>(num_rows * columns);
  staging_.resize(std::max(staging_.size(), count * element_bytes));
  const uint64_t first_byte = static_cast<uint64_t>((part.source_row + first_row) * columns) * element_bytes;
  absl::Status read = source_.Read(tensor, first_byte, std::span(staging_).first(count * element_bytes));
  if (!read.ok()) return read;
  if (part.scales.weight != nullptr) SpreadScales(part, first_row, num_rows);
  const int64_t num_scaled = std::clamp(part.scaled_rows - part.row_begin - first_row, int64_t{0}, num_rows);
  if (num_scaled == 0 || part.scales.weight != nullptr)
    return PackRows(part, *tensor.dtype->loadable, first_row, num_rows);

  Widen(*tensor.dtype->loadable, count);
  for (int64_t row = 0; row < num_scaled; ++row) {
    for (int64_t column = 0; column < columns; ++column) {
      widened_[static_cast<size_t>(part.transposed ? column * num_rows + row : row * columns + column)] *= part.scale;
    }
  }
  staging_.resize(std::max(staging_.size(), count * sizeof(float)));
  std::memcpy(staging_.data(), widened_.data(), count * sizeof(float));
  return PackRows(part, kernels::DType::kF32, first_row, num_rows);
}

// The scales of the staged FP8 rows, one line a row; the factor of scaled rows goes into them.
void ModelBuilder::SpreadScales(const WeightPart& part, int64_t first_row, int64_t num_rows) {
  const int64_t per_row = kernels::ScalesPerRow(part.scales.block, part.shape[1]);
  row_scales_.resize(static_cast<size_t>(num_rows * per_row));
  for (int64_t row = 0; row < num_rows; ++row) {
    const int64_t scale_row = (part.source_row + first_row + row) / part.scales.rows_per_scale;
    const float factor = part.row_begin + first_row + row < part.scaled_rows ? part.scale : 1.0F;
    for (int64_t i = 0; i < per_row; ++i) {
      row_scales_[static_cast<size_t>(row * per_row + i)] =
          scales_[static_cast<size_t>(scale_row * per_row + i)] * factor;
    }
  }
}

// A fused matrix has one input: the largest of its parts' scales covers them all.
absl::Status ModelBuilder::LoadInputScale(const WeightPart& part) {
  if (part.scales.input == nullptr) return absl::OkStatus();
  const absl::StatusOr<std::vector<float>> scale = ReadScales(source_, *part.scales.input);
  if (!scale.ok()) return scale.status();
  float& stored = model_->input_scales_[{part.slot, part.layer}];
  stored = std::max(stored, scale->front());
  return absl::OkStatus();
}

// Packs the staged rows.
absl::Status ModelBuilder::PackRows(const WeightPart& part, kernels::DType dtype, int64_t first_row, int64_t num_rows) {
  const kernels::Device& device = *model_->device_;
  const bool quantized = dtype == kernels::DType::kF8E4M3;
  for (PrecisionWeights& weights : model_->weights_) {
    const kernels::PackWeightParams params = {.weight = MatrixOf(&weights, part.slot, part.layer),
                                              .source = staging_.data(),
                                              .source_dtype = dtype,
                                              .row_stride = part.transposed ? 1 : part.shape[1],
                                              .column_stride = part.transposed ? num_rows : 1,
                                              .row_begin = part.row_begin + first_row,
                                              .num_rows = num_rows,
                                              .source_scales = quantized ? row_scales_.data() : nullptr,
                                              .source_scale_block = quantized ? part.scales.block : 0};
    const kernels::KernelStatus status = device.ops->pack_weight(device.context, params);
    if (status != kernels::KernelStatus::kOk) return DeviceError(part.tensor.c_str(), status);
  }
  return absl::OkStatus();
}

absl::Status ModelBuilder::LoadVector(const WeightPart& part, const TensorInfo& tensor) {
  const auto count = static_cast<size_t>(part.num_rows);
  const size_t bytes = count * (tensor.dtype->bits / 8);
  staging_.resize(std::max(staging_.size(), bytes));
  const uint64_t first_byte = static_cast<uint64_t>(part.source_row) * (tensor.dtype->bits / 8);
  absl::Status read = source_.Read(tensor, first_byte, std::span(staging_).first(bytes));
  if (!read.ok()) return read;
  Widen(*tensor.dtype->loadable, count);
  const int64_t num_scaled = std::clamp(part.scaled_rows - part.row_begin, int64_t{0}, part.num_rows);
  for (int64_t i = 0; i < num_scaled; ++i) widened_[static_cast<size_t>(i)] *= part.scale;
  if (IsNorm(part.slot) && !part.is_bias) {
    for (size_t i = 0; i < count; ++i) widened_[i] += model_->config_.norm_weight_offset;
  }
  // All precisions share the vectors, so that the first one's pointer is every one's.
  const float* vector = *VectorOf(&model_->weights_.front(), part.slot, part.layer, part.is_bias);
  const kernels::Device& device = *model_->device_;
  const kernels::KernelStatus status = device.ops->copy_to_device(
      device.context, const_cast<float*>(vector) + part.row_begin, widened_.data(), count * sizeof(float));
  if (status != kernels::KernelStatus::kOk) return DeviceError(part.tensor.c_str(), status);
  return absl::OkStatus();
}

// The first `count` staged values, as FP32.
void ModelBuilder::Widen(kernels::DType dtype, size_t count) {
  widened_.resize(std::max(widened_.size(), count));
  if (dtype == kernels::DType::kF32) {
    std::memcpy(widened_.data(), staging_.data(), count * sizeof(float));
    return;
  }
  for (size_t i = 0; i < count; ++i) {
    uint16_t bits;
    std::memcpy(&bits, staging_.data() + i * sizeof(bits), sizeof(bits));
    widened_[i] = dtype == kernels::DType::kF16 ? kernels::Fp16ToFloat(bits) : kernels::Bf16ToFloat(bits);
  }
}

}  // namespace dunlin::engine

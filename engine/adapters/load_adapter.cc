// SPDX-License-Identifier: Apache-2.0
#include "engine/adapters/load_adapter.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/adapters/adapter_file.h"
#include "engine/adapters/adapter_ranks.h"
#include "engine/adapters/match_modules.h"
#include "engine/base/checked_math.h"
#include "engine/model/load/gguf_model.h"
#include "kernels/api/float_formats.h"

namespace dunlin::engine {
namespace {

size_t DownBytes(int32_t rank, int64_t in_features, kernels::DType dtype) {
  return static_cast<size_t>(rank * kernels::LowRankStride(in_features)) * kernels::SizeOf(dtype);
}
size_t UpBytes(int32_t rank, int64_t out_features, kernels::DType dtype) {
  return static_cast<size_t>(rank * kernels::LowRankPanels(out_features) * kernels::kLowRankPanel) *
         kernels::SizeOf(dtype);
}

// The tensor's values as FP32, all of them finite.
absl::StatusOr<std::vector<float>> ReadValues(const AdapterMatrix& matrix) {
  size_t count = 1;
  for (const int64_t size : matrix.shape) count *= static_cast<size_t>(size);
  std::vector<std::byte> bytes(count * kernels::SizeOf(matrix.dtype));
  if (absl::Status status = matrix.read(bytes); !status.ok()) return status;
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) {
    if (matrix.dtype == kernels::DType::kF32) {
      std::memcpy(&values[i], bytes.data() + 4 * i, 4);
    } else {
      uint16_t bits = 0;
      std::memcpy(&bits, bytes.data() + 2 * i, 2);
      values[i] = matrix.dtype == kernels::DType::kF16 ? kernels::Fp16ToFloat(bits) : kernels::Bf16ToFloat(bits);
    }
    if (!std::isfinite(values[i])) return RefuseMatrix(matrix, "has a value that is not finite");
  }
  return values;
}

void Store(const float* values, int64_t count, kernels::DType dtype, std::byte* out) {
  if (dtype == kernels::DType::kF32) {
    std::memcpy(out, values, static_cast<size_t>(count) * 4);
    return;
  }
  for (int64_t i = 0; i < count; ++i) {  // exact: of a file of that dtype
    const uint16_t bits =
        dtype == kernels::DType::kF16 ? kernels::FloatToFp16(values[i]) : kernels::FloatToBf16(values[i]);
    std::memcpy(out + 2 * i, &bits, 2);
  }
}

absl::StatusOr<std::vector<AdapterModule>> Open(const Model& model, const std::string& path) {
  const bool gguf = IsGgufPath(path);
  if (gguf != model.adaptable().gguf) {
    return absl::InvalidArgumentError(gguf ? "is a GGUF adapter; this model is a directory and takes PEFT's"
                                           : "is no GGUF file; this model is one and takes GGUF adapters");
  }
  return gguf ? OpenGgufAdapter(path) : OpenPeftAdapter(path);
}

// FNV-1a, eight bytes at a time. REQUIRES: a multiple of eight bytes, as matrices of 64-byte rows are.
uint64_t HashOf(const std::vector<std::byte>& bytes) {
  uint64_t hash = 0xCBF29CE484222325U;
  for (size_t at = 0; at < bytes.size(); at += sizeof(uint64_t)) {
    uint64_t word = 0;
    std::memcpy(&word, bytes.data() + at, sizeof(word));
    hash = (hash ^ word) * 0x100000001B3U;
    hash ^= hash >> 32;
  }
  return hash;
}

// The values of a module's matrices as its files have them (AdapterModule).
class PairValues {
 public:
  PairValues(const MatchedModule& module, bool gguf, const std::vector<float>& down, const std::vector<float>& up)
      : down_(down),
        up_(up),
        rank_(module.rank),
        count_(module.count()),
        rows_by_expert_(gguf || count_ == 1),
        transposed_(module.model->is_stack() && module.model->stack_rows == StackRows::kTransposed),
        columns_(static_cast<int64_t>(down.size()) / (rank_ * count_)),
        rows_(static_cast<int64_t>(up.size()) / (rank_ * count_)) {}

  // Of the i-th matrices: element [r, k] of the first, [n, r] of the second.
  float Down(int64_t i, int64_t r, int64_t k) const { return transposed_ ? OfUp(i, k, r) : OfDown(i, r, k); }
  float Up(int64_t i, int64_t n, int64_t r) const { return transposed_ ? OfDown(i, r, n) : OfUp(i, n, r); }

 private:
  float OfDown(int64_t i, int64_t r, int64_t k) const {
    return down_[static_cast<size_t>((i * rank_ + r) * columns_ + k)];
  }
  float OfUp(int64_t i, int64_t n, int64_t r) const {
    const int64_t at = rows_by_expert_ ? (i * rows_ + n) * rank_ + r : (n * rank_ + r) * count_ + i;
    return up_[static_cast<size_t>(at)];
  }

  const std::vector<float>& down_;
  const std::vector<float>& up_;
  const int64_t rank_;
  const int64_t count_;
  const bool rows_by_expert_;
  const bool transposed_;
  const int64_t columns_;  // of the first matrices in the file
  const int64_t rows_;     // of the second ones
};

class AdapterPacker {
 public:
  AdapterPacker(const Model& model, const AdapterRoom& room) : model_(model), room_(room) {}

  absl::StatusOr<PackedAdapter> Pack(const std::vector<AdapterModule>& modules) {
    absl::StatusOr<std::vector<MatchedModule>> matched = MatchModules(model_, room_.max_rank, modules);
    if (!matched.ok()) return matched.status();
    matched_ = *std::move(matched);
    if (absl::Status status = CheckBytes(); !status.ok()) return status;
    std::vector<std::byte> matrices(bytes_);
    BeginUps();
    for (const MatchedModule& module : matched_) {
      if (absl::Status status = AddModule(module, matrices.data()); !status.ok()) return status;
    }
    return PackedAdapter{std::make_shared<const AdapterLayout>(Layout(HashOf(matrices))), std::move(matrices)};
  }

 private:
  struct PlacedPair {
    int32_t rank;  // of a divided model
    int32_t layer;
    Projection projection;
    int32_t expert;
    AdapterLayout::Placed at;
  };

  absl::Status CheckBytes() {
    CheckedU64 downs(0);
    CheckedU64 bytes(0);
    for (const MatchedModule& module : matched_) {
      const auto count = static_cast<uint64_t>(module.count());
      downs += count * DownBytes(module.rank, module.model->in_features, module.dtype);
      for (const Segment& segment : SegmentsOf(model_, *module.model)) {
        bytes += count * UpBytes(module.rank, segment.count, module.dtype);
      }
    }
    bytes += downs;
    CheckedU64 on_devices = bytes;
    for (int32_t rank = 1; HasCopies(model_) && rank < model_.num_ranks(); ++rank) on_devices += downs;
    if (!on_devices.ok() || on_devices.value() > room_.max_bytes) {
      return absl::ResourceExhaustedError(absl::StrCat("the adapter takes ",
                                                       on_devices.ok() ? on_devices.value() : UINT64_MAX, " bytes; ",
                                                       room_.max_bytes, " are left of max_bytes"));
    }
    bytes_ = bytes.value();
    device_bytes_ = on_devices.value();
    down_bytes_ = downs.value();
    return absl::OkStatus();
  }

  // Of each rank after the first matrices.
  void BeginUps() {
    std::vector<size_t> bytes(static_cast<size_t>(model_.num_ranks()));
    for (const MatchedModule& module : matched_) {
      for (const Segment& segment : SegmentsOf(model_, *module.model)) {
        bytes[static_cast<size_t>(segment.rank)] +=
            static_cast<size_t>(module.count()) * UpBytes(module.rank, segment.count, module.dtype);
      }
    }
    up_begins_ = {down_bytes_};
    for (const size_t of_rank : bytes) up_begins_.push_back(up_begins_.back() + of_rank);
    next_ups_ = up_begins_;
  }

  // The offset of the next matrix; each is a multiple of 64 bytes.
  static size_t Take(size_t bytes, size_t* next) { return std::exchange(*next, *next + bytes); }

  absl::Status AddModule(const MatchedModule& module, std::byte* memory) {
    const absl::StatusOr<std::vector<float>> down = ReadValues(module.own->down);
    if (!down.ok()) return down.status();
    const absl::StatusOr<std::vector<float>> up = ReadValues(module.own->up);
    if (!up.ok()) return up.status();
    const PairValues values{module, model_.adaptable().gguf, *down, *up};
    for (int32_t i = 0; i < module.count(); ++i) AddPair(module, values, i, memory);
    return absl::OkStatus();
  }

  void AddPair(const MatchedModule& module, const PairValues& values, int32_t i, std::byte* memory) {
    const int64_t in_features = module.model->in_features;
    const size_t element = kernels::SizeOf(module.dtype);
    const size_t down_at = Take(DownBytes(module.rank, in_features, module.dtype), &next_down_);
    std::vector<float> row(static_cast<size_t>(in_features));
    for (int32_t r = 0; r < module.rank; ++r) {
      for (int64_t k = 0; k < in_features; ++k) row[static_cast<size_t>(k)] = values.Down(i, r, k);
      const auto at = static_cast<size_t>(r * kernels::LowRankStride(in_features)) * element;
      Store(row.data(), in_features, module.dtype, memory + down_at + at);
    }
    for (const Segment& segment : SegmentsOf(model_, *module.model)) {
      const size_t up_at =
          Take(UpBytes(module.rank, segment.count, module.dtype), &next_ups_[static_cast<size_t>(segment.rank)]);
      FillUp(module, segment, values, i, memory + up_at);
      const kernels::LowRankPair pair{.down = nullptr,
                                      .up = nullptr,
                                      .dtype = module.dtype,
                                      .rank = module.rank,
                                      .first_column = static_cast<int32_t>(segment.target),
                                      .out_features = static_cast<int32_t>(segment.count),
                                      .scale = module.scale};
      pairs_.push_back(
          {segment.rank, module.model->layer, module.model->projection, module.expert(i), {pair, down_at, up_at}});
    }
  }

  // Transposes lora_B into panels: the rows of the projection that the segment has, in their order.
  static void FillUp(const MatchedModule& module, const Segment& segment, const PairValues& values, int32_t i,
                     std::byte* out) {
    std::vector<float> row(static_cast<size_t>(segment.count));
    for (int32_t r = 0; r < module.rank; ++r) {
      for (const ModuleRows& rows : module.model->rows) {
        const int64_t at = rows.row_begin - segment.first_column;
        for (int64_t n = std::max(int64_t{0}, -at); n < std::min(rows.num_rows, segment.count - at); ++n) {
          const float factor = rows.row_begin + n < rows.scaled_rows ? rows.scale : 1.0F;
          const int64_t stored = module.model->StoredRow(rows.source_row + n);
          row[static_cast<size_t>(at + n)] = factor * values.Up(i, stored, r);
        }
      }
      for (int64_t first = 0; first < segment.count; first += kernels::kLowRankPanel) {
        const auto at = static_cast<size_t>(first * module.rank + r * kernels::kLowRankPanel);
        Store(row.data() + first, std::min(kernels::kLowRankPanel, segment.count - first), module.dtype,
              out + at * kernels::SizeOf(module.dtype));
      }
    }
  }

  AdapterLayout Layout(uint64_t hash) {
    std::sort(pairs_.begin(), pairs_.end(), [](const PlacedPair& a, const PlacedPair& b) {
      return std::tuple(a.rank, a.layer, a.projection, a.expert, a.at.pair.first_column) <
             std::tuple(b.rank, b.layer, b.projection, b.expert, b.at.pair.first_column);
    });
    AdapterLayout layout;
    layout.bytes = bytes_;
    layout.device_bytes = device_bytes_;
    layout.up_begins = up_begins_;
    layout.hash = hash;
    layout.ranges_of_rank = static_cast<size_t>(model_.config().all_layers()) * kNumProjections;
    layout.ranges.resize(static_cast<size_t>(model_.num_ranks()) * layout.ranges_of_rank);
    for (const PlacedPair& placed : pairs_) {
      const size_t of_rank = static_cast<size_t>(placed.rank) * layout.ranges_of_rank;
      const size_t of_layer = of_rank + static_cast<size_t>(placed.layer) * kNumProjections;
      AdapterLayout::Range& range = layout.ranges[of_layer + static_cast<size_t>(placed.projection)];
      if (range.count++ == 0) BeginRange(placed, &layout, &range);
      layout.pairs.push_back(placed.at);
      for (size_t e = static_cast<size_t>(placed.expert + 1); IsOfExperts(placed.projection) && e <= num_experts();
           ++e) {
        layout.expert_begins[range.experts + e] = layout.pairs.size();
      }
      layout.rank = std::max(layout.rank, placed.at.pair.rank);
    }
    std::set<std::string> targets;
    for (const MatchedModule& module : matched_) targets.insert(LastComponent(module.model->name));
    layout.targets.assign(targets.begin(), targets.end());
    return layout;
  }

  void BeginRange(const PlacedPair& first, AdapterLayout* layout, AdapterLayout::Range* range) const {
    range->first = layout->pairs.size();
    if (!IsOfExperts(first.projection)) return;
    range->experts = layout->expert_begins.size();
    layout->expert_begins.resize(range->experts + num_experts() + 1, range->first);
  }
  size_t num_experts() const { return static_cast<size_t>(model_.config().experts.routing.num_experts); }

  const Model& model_;
  const AdapterRoom room_;
  std::vector<MatchedModule> matched_;
  std::vector<PlacedPair> pairs_;
  size_t bytes_ = 0;         // AdapterLayout's
  size_t device_bytes_ = 0;  // AdapterLayout's
  size_t down_bytes_ = 0;    // of all first matrices
  std::vector<size_t> up_begins_;
  size_t next_down_ = 0;
  std::vector<size_t> next_ups_;  // by rank
};

}  // namespace

uint64_t NextAdapterId() {
  static std::atomic<uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

absl::StatusOr<std::shared_ptr<const Adapter>> MakeAdapter(const Model& model,
                                                           const std::vector<AdapterModule>& modules,
                                                           const AdapterRoom& room) {
  const absl::StatusOr<PackedAdapter> packed = AdapterPacker(model, room).Pack(modules);
  if (!packed.ok()) return packed.status();
  return Adapter::Create(AdapterDevices(model), *packed, NextAdapterId());
}

absl::StatusOr<PackedAdapter> ReadAdapter(const Model& model, const std::string& path, const AdapterRoom& room) {
  const absl::StatusOr<std::vector<AdapterModule>> modules = Open(model, path);
  absl::StatusOr<PackedAdapter> packed =
      modules.ok() ? AdapterPacker(model, room).Pack(*modules) : absl::StatusOr<PackedAdapter>(modules.status());
  if (packed.ok()) return packed;
  return absl::Status(packed.status().code(), absl::StrCat(path, ": ", packed.status().message()));
}

}  // namespace dunlin::engine

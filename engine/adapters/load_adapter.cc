// SPDX-License-Identifier: Apache-2.0
#include "engine/adapters/load_adapter.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <map>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/adapters/adapter_file.h"
#include "engine/adapters/adapter_ranks.h"
#include "engine/base/checked_math.h"
#include "engine/model/checkpoint/tensor_source.h"
#include "engine/model/load/gguf_model.h"
#include "kernels/api/float_formats.h"

namespace dunlin::engine {
namespace {

// A module of the adapter and of the model.
struct MatchedModule {
  const AdapterModule* own;
  const AdaptableModule* model;
  int32_t rank;
  kernels::DType dtype;  // as it is kept
  float scale;
};

size_t DownBytes(int32_t rank, int64_t in_features, kernels::DType dtype) {
  return static_cast<size_t>(rank * kernels::LowRankStride(in_features)) * kernels::SizeOf(dtype);
}
size_t UpBytes(int32_t rank, int64_t out_features, kernels::DType dtype) {
  return static_cast<size_t>(rank * kernels::LowRankPanels(out_features) * kernels::kLowRankPanel) *
         kernels::SizeOf(dtype);
}

bool IsScaled(const AdaptableModule& module) {
  return std::any_of(module.rows.begin(), module.rows.end(),
                     [](const ModuleRows& rows) { return rows.scaled_rows > rows.row_begin && rows.scale != 1.0F; });
}

// "q_proj" of "layers.0.self_attn.q_proj".
std::string LastComponent(const std::string& name) {
  return name.substr(name.rfind('.') + 1);
}

absl::Status Refused(const AdapterMatrix& matrix, const std::string& why) {
  return absl::InvalidArgumentError(absl::StrCat(matrix.file, ": tensor '", matrix.tensor, "' ", why));
}

absl::Status CheckShape(const AdapterMatrix& matrix, int64_t rows, int64_t columns) {
  const std::vector<int64_t> expected = {rows, columns};
  if (matrix.shape == expected) return absl::OkStatus();
  return Refused(matrix,
                 absl::StrCat("has shape ", ShapeText(matrix.shape), "; the model makes it ", ShapeText(expected)));
}

// The tensor's values as FP32, all of them finite.
absl::StatusOr<std::vector<float>> ReadValues(const AdapterMatrix& matrix) {
  const auto count = static_cast<size_t>(matrix.shape[0] * matrix.shape[1]);
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
    if (!std::isfinite(values[i])) return Refused(matrix, "has a value that is not finite");
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

class AdapterPacker {
 public:
  AdapterPacker(const Model& model, const AdapterRoom& room) : model_(model), room_(room) {}

  absl::StatusOr<PackedAdapter> Pack(const std::vector<AdapterModule>& modules) {
    for (const AdapterModule& module : modules) {
      if (absl::Status status = Match(module); !status.ok()) return status;
    }
    if (absl::Status status = CheckProjections(); !status.ok()) return status;
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
    AdapterLayout::Placed at;
  };

  // Those of the name, one for each projection.
  std::vector<const AdaptableModule*> Find(std::string_view name) const {
    std::vector<const AdaptableModule*> found = FindExactly(name);
    for (const std::string& prefix : model_.adaptable().prefixes) {
      if (!found.empty()) break;
      if (name.starts_with(prefix)) found = FindExactly(name.substr(prefix.size()));
    }
    return found;
  }
  std::vector<const AdaptableModule*> FindExactly(std::string_view name) const {
    std::vector<const AdaptableModule*> found;
    for (const AdaptableModule& module : model_.adaptable().modules) {
      if (module.name == name) found.push_back(&module);
    }
    return found;
  }

  absl::Status Match(const AdapterModule& own) {
    const std::vector<const AdaptableModule*> modules = Find(own.name);
    for (const AdaptableModule* module : modules) {
      if (absl::Status status = MatchOne(own, module); !status.ok()) return status;
    }
    if (!modules.empty()) return absl::OkStatus();
    std::set<std::string> known;
    for (const AdaptableModule& other : model_.adaptable().modules) known.insert(LastComponent(other.name));
    return absl::InvalidArgumentError(
        absl::StrCat(own.down.file, ": module '", own.name,
                     "' is none that adapters of this model may change; those of its layers are ",
                     known.empty() ? "none" : absl::StrJoin(known, ", ")));
  }

  absl::Status MatchOne(const AdapterModule& own, const AdaptableModule* module) {
    if (std::any_of(matched_.begin(), matched_.end(),
                    [module](const MatchedModule& other) { return other.model == module; })) {
      return Refused(own.down, absl::StrCat("adapts '", module->name, "', which it does under another name already"));
    }
    const int64_t rank = own.down.shape.empty() ? 0 : own.down.shape.front();
    if (rank < 1 || rank > room_.max_rank) {
      return Refused(own.down, absl::StrCat("has rank ", rank, "; limit is [1, ", room_.max_rank, "]"));
    }
    if (own.rank > 0 && own.rank != rank) {
      return Refused(own.down, absl::StrCat("has rank ", rank, "; adapter_config.json makes it ", own.rank));
    }
    if (absl::Status status = CheckShape(own.down, rank, module->in_features); !status.ok()) return status;
    if (absl::Status status = CheckShape(own.up, module->out_features, rank); !status.ok()) return status;
    const bool as_stored = own.down.dtype == own.up.dtype && !IsScaled(*module);
    const auto divisor = static_cast<double>(rank);
    matched_.push_back({.own = &own,
                        .model = module,
                        .rank = static_cast<int32_t>(rank),
                        .dtype = as_stored ? own.down.dtype : kernels::DType::kF32,
                        .scale = static_cast<float>(own.alpha / (own.rank_stabilized ? std::sqrt(divisor) : divisor))});
    return absl::OkStatus();
  }

  // What a step's buffers have room for.
  absl::Status CheckProjections() const {
    struct Sum {
      int64_t rank = 0;
      size_t pairs = 0;
    };
    std::map<std::tuple<int32_t, int32_t, Projection>, Sum> sums;
    const int64_t limit = int64_t{AdapterRanks(model_.num_ranks())} * room_.max_rank;
    for (const MatchedModule& module : matched_) {
      for (const Segment& segment : SegmentsOf(model_, *module.model)) {
        Sum& sum = sums[{segment.rank, module.model->layer, module.model->projection}];
        sum.rank += module.rank;
        if (++sum.pairs > static_cast<size_t>(kernels::kLowRankPairsMax) || sum.rank > limit) {
          return Refused(module.own->down,
                         absl::StrCat("makes the ranks of its projection ", sum.rank, " in ", sum.pairs,
                                      " parts; limits are ", limit, " and ", kernels::kLowRankPairsMax));
        }
      }
    }
    return absl::OkStatus();
  }

  absl::Status CheckBytes() {
    CheckedU64 downs(0);
    CheckedU64 bytes(0);
    for (const MatchedModule& module : matched_) {
      downs += DownBytes(module.rank, module.model->in_features, module.dtype);
      for (const Segment& segment : SegmentsOf(model_, *module.model)) {
        bytes += UpBytes(module.rank, segment.count, module.dtype);
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
        bytes[static_cast<size_t>(segment.rank)] += UpBytes(module.rank, segment.count, module.dtype);
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
    const int64_t in_features = module.model->in_features;
    const size_t element = kernels::SizeOf(module.dtype);
    const size_t down_at = Take(DownBytes(module.rank, in_features, module.dtype), &next_down_);
    for (int32_t r = 0; r < module.rank; ++r) {
      const auto row = static_cast<size_t>(r * kernels::LowRankStride(in_features)) * element;
      Store(down->data() + r * in_features, in_features, module.dtype, memory + down_at + row);
    }
    for (const Segment& segment : SegmentsOf(model_, *module.model)) {
      const size_t up_at =
          Take(UpBytes(module.rank, segment.count, module.dtype), &next_ups_[static_cast<size_t>(segment.rank)]);
      FillUp(module, segment, *up, memory + up_at);
      const kernels::LowRankPair pair{.down = nullptr,
                                      .up = nullptr,
                                      .dtype = module.dtype,
                                      .rank = module.rank,
                                      .first_column = static_cast<int32_t>(segment.target),
                                      .out_features = static_cast<int32_t>(segment.count),
                                      .scale = module.scale};
      pairs_.push_back({segment.rank, module.model->layer, module.model->projection, {pair, down_at, up_at}});
    }
    return absl::OkStatus();
  }

  // Transposes lora_B into panels: the rows of the projection that the segment has, in their order.
  static void FillUp(const MatchedModule& module, const Segment& segment, const std::vector<float>& values,
                     std::byte* out) {
    std::vector<float> row(static_cast<size_t>(segment.count));
    for (int32_t r = 0; r < module.rank; ++r) {
      for (const ModuleRows& rows : module.model->rows) {
        const int64_t at = rows.row_begin - segment.first_column;
        for (int64_t i = std::max(int64_t{0}, -at); i < std::min(rows.num_rows, segment.count - at); ++i) {
          const float factor = rows.row_begin + i < rows.scaled_rows ? rows.scale : 1.0F;
          const int64_t stored = module.model->StoredRow(rows.source_row + i);
          row[static_cast<size_t>(at + i)] = factor * values[static_cast<size_t>(stored * module.rank + r)];
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
      return std::tuple(a.rank, a.layer, a.projection, a.at.pair.first_column) <
             std::tuple(b.rank, b.layer, b.projection, b.at.pair.first_column);
    });
    AdapterLayout layout;
    layout.bytes = bytes_;
    layout.device_bytes = device_bytes_;
    layout.up_begins = up_begins_;
    layout.hash = hash;
    layout.ranges_of_rank = static_cast<size_t>(model_.config().num_layers) * kNumProjections;
    layout.ranges.resize(static_cast<size_t>(model_.num_ranks()) * layout.ranges_of_rank);
    for (const PlacedPair& placed : pairs_) {
      const size_t of_rank = static_cast<size_t>(placed.rank) * layout.ranges_of_rank;
      const size_t of_layer = of_rank + static_cast<size_t>(placed.layer) * kNumProjections;
      AdapterLayout::Range& range = layout.ranges[of_layer + static_cast<size_t>(placed.projection)];
      if (range.count++ == 0) range.first = layout.pairs.size();
      layout.pairs.push_back(placed.at);
      layout.rank = std::max(layout.rank, placed.at.pair.rank);
    }
    std::set<std::string> targets;
    for (const MatchedModule& module : matched_) targets.insert(LastComponent(module.model->name));
    layout.targets.assign(targets.begin(), targets.end());
    return layout;
  }

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

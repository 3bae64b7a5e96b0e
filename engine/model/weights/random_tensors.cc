// SPDX-License-Identifier: Apache-2.0
#include "engine/model/weights/random_tensors.h"

#include <cmath>
#include <cstring>
#include <functional>

#include "kernels/api/float_formats.h"

namespace dunlin::engine {
namespace {

constexpr double kStandardDeviation = 0.02;  // GPT-2's initializer_range, and Llama's
constexpr uint16_t kBf16One = 0x3F80;

// Source: Steele, Lea & Flood 2014 (SplitMix64's finaliser).
uint64_t Mix(uint64_t value) {
  value += 0x9E3779B97F4A7C15ULL;
  value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9ULL;
  value = (value ^ (value >> 27)) * 0x94D049BB133111EBULL;
  return value ^ (value >> 31);
}

uint64_t HashName(std::string_view name) {  // FNV-1a
  uint64_t hash = 0xCBF29CE484222325ULL;
  for (const char c : name) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001B3ULL;
  return hash;
}

// The sums of bytes 0-3 and of bytes 4-7: each has mean 510, variance 4 (256^2 - 1) / 12 and is nearly normal.
struct ByteSums {
  uint32_t low;
  uint32_t high;
};
ByteSums SumBytes(uint64_t bits) {
  constexpr uint64_t kEvenBytes = 0x00FF00FF00FF00FFULL;
  const uint64_t pairs = (bits & kEvenBytes) + ((bits >> 8) & kEvenBytes);
  const uint64_t quads = pairs + (pairs >> 16);
  return {static_cast<uint32_t>(quads & 0xFFFF), static_cast<uint32_t>((quads >> 32) & 0xFFFF)};
}

}  // namespace

RandomTensors::RandomTensors(const std::vector<WeightPart>& parts, uint64_t seed) {
  const double deviation = std::sqrt(4.0 * (256.0 * 256.0 - 1.0) / 12.0);
  for (size_t sum = 0; sum < kNumValues; ++sum) {
    const double value = (static_cast<double>(sum) - 510.0) * (kStandardDeviation / deviation);
    bf16_values_[sum] = kernels::FloatToBf16(static_cast<float>(value));
  }
  for (const WeightPart& part : parts) {
    Entry entry{.info = {},
                .fill = part.is_bias        ? Fill::kZero
                        : IsNorm(part.slot) ? Fill::kOne
                                            : Fill::kNormal,
                .stream = Mix(Mix(seed) ^ HashName(part.tensor))};
    uint64_t size = sizeof(uint16_t);
    for (const int64_t dimension : part.shape) size *= static_cast<uint64_t>(dimension);
    entry.info.name = part.tensor;
    entry.info.dtype = &TensorDTypeOf(kernels::DType::kBF16);
    entry.info.shape = part.shape;
    entry.info.end = size;
    entry.info.file_index = static_cast<int32_t>(entries_.size());
    entries_.emplace(part.tensor, std::move(entry));
  }
}

const TensorInfo* RandomTensors::Find(std::string_view name) const {
  const auto found = entries_.find(name);
  return found == entries_.end() ? nullptr : &found->second.info;
}

absl::Status RandomTensors::Read(const TensorInfo& tensor, uint64_t first_byte, std::span<std::byte> out) const {
  const Entry& entry = entries_.find(tensor.name)->second;
  const size_t count = out.size() / sizeof(uint16_t);
  if (entry.fill == Fill::kNormal) {
    FillNormal(entry.stream, first_byte / sizeof(uint16_t), count, out.data());
    return absl::OkStatus();
  }
  const uint16_t value = entry.fill == Fill::kOne ? kBf16One : uint16_t{0};
  for (size_t i = 0; i < count; ++i) std::memcpy(out.data() + i * sizeof(value), &value, sizeof(value));
  return absl::OkStatus();
}

absl::StatusOr<std::byte*> RandomTensors::ReadOnce(const TensorInfo& tensor, uint64_t first_byte, size_t bytes,
                                                   PageBuffer* buffer) const {
  return ReadIntoBuffer(*this, tensor, first_byte, bytes, buffer);
}

// Elements [first, first + count) of a stream. Two elements share one hash, so the loop runs over whole pairs.
void RandomTensors::FillNormal(uint64_t stream, uint64_t first, size_t count, std::byte* out) const {
  const auto element = [&](uint64_t index) {
    const ByteSums sums = SumBytes(Mix(stream + index / 2));
    return bf16_values_[index % 2 == 0 ? sums.low : sums.high];
  };
  const auto store = [&](size_t at, uint16_t value) { std::memcpy(out + at * sizeof(value), &value, sizeof(value)); };
  size_t i = 0;
  if (first % 2 != 0 && i < count) store(i++, element(first));
  for (; i + 1 < count; i += 2) {
    const ByteSums sums = SumBytes(Mix(stream + (first + i) / 2));
    store(i, bf16_values_[sums.low]);
    store(i + 1, bf16_values_[sums.high]);
  }
  if (i < count) store(i, element(first + i));
}

std::vector<const TensorInfo*> RandomTensors::List() const {
  std::vector<const TensorInfo*> list;
  for (const auto& [name, entry] : entries_) list.push_back(&entry.info);
  return list;
}

}  // namespace dunlin::engine

// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/random_values.h"

#include <array>
#include <cmath>

#include "kernels/api/float_formats.h"

namespace dunlin::tools::bench {
namespace {

// Source: Steele, Lea & Flood 2014 (SplitMix64's finaliser).
uint64_t Mix(uint64_t value) {
  value += 0x9E3779B97F4A7C15ULL;
  value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9ULL;
  value = (value ^ (value >> 27)) * 0x94D049BB133111EBULL;
  return value ^ (value >> 31);
}

// Calls take(i, byte) for every i < count, with eight bytes of each hash.
template <typename Take>
void ForEachByte(uint64_t stream, size_t count, const Take& take) {
  for (size_t i = 0; i < count; i += 8) {
    uint64_t bits = Mix(stream + i / 8);
    for (size_t j = i; j < i + 8 && j < count; ++j, bits >>= 8) take(j, static_cast<uint8_t>(bits));
  }
}

// Byte b becomes the code at the (b + 0.5) / 256 quantile of a normal, approximated by the logistic distribution of the
// same deviation, whose quantiles have a closed form: ln(p / (1 - p)) * sqrt(3) / pi.
std::array<uint8_t, 256> MakeCodeTable() {
  constexpr double kDeviation = 128.0;
  std::array<uint8_t, 256> table{};
  for (size_t b = 0; b < table.size(); ++b) {
    const double p = (static_cast<double>(b) + 0.5) / 256.0;
    table[b] = kernels::FloatToE4M3(static_cast<float>(std::log(p / (1.0 - p)) * 0.5513 * kDeviation));
  }
  return table;
}

const std::array<uint8_t, 256>& CodeTable() {
  static const std::array<uint8_t, 256> table = MakeCodeTable();
  return table;
}

}  // namespace

uint64_t StreamOf(uint64_t seed, uint64_t tensor) {
  return Mix(Mix(seed) ^ (tensor + 1) * 0xD1342543DE82EF95ULL);
}

void FillCodes(uint64_t stream, std::span<uint8_t> codes) {
  const auto& table = CodeTable();
  ForEachByte(stream, codes.size(), [&](size_t i, uint8_t byte) { codes[i] = table[byte]; });
}

void FillRows(uint64_t stream, size_t row, std::span<float> values) {
  std::array<float, 256> table{};
  for (size_t b = 0; b < table.size(); ++b) table[b] = kernels::E4M3ToFloat(CodeTable()[b]) * kCodeUnit;
  ForEachByte(stream, values.size(), [&](size_t i, uint8_t byte) { values[i] = table[byte]; });
  for (size_t i = 0; i < values.size(); i += row) values[i] = values[i] < 0.0F ? -0.875F : 0.875F;
}

void FillUniform(uint64_t stream, std::span<float> values) {
  ForEachByte(stream, values.size(), [&](size_t i, uint8_t byte) { values[i] = static_cast<float>(byte) / 256.0F; });
}

void FillIds(uint64_t stream, int32_t limit, std::span<int32_t> ids) {
  for (size_t i = 0; i < ids.size(); ++i) {
    ids[i] = static_cast<int32_t>(Mix(stream + i) % static_cast<uint64_t>(limit));
  }
}

}  // namespace dunlin::tools::bench

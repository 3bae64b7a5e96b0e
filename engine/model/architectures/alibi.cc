// SPDX-License-Identifier: Apache-2.0
#include "engine/model/architectures/alibi.h"

#include <cmath>
#include <cstddef>

#include "kernels/api/float_formats.h"

namespace dunlin::engine {
namespace {

float RoundedToBf16(float value) {
  return kernels::Bf16ToFloat(kernels::FloatToBf16(value));
}

}  // namespace

std::vector<float> AlibiSlopes(int32_t num_heads) {
  int32_t power_of_two = 1;
  while (2 * power_of_two <= num_heads) power_of_two *= 2;
  const auto base = static_cast<double>(static_cast<float>(std::exp2(-8.0 / power_of_two)));
  const auto extra_base = static_cast<double>(static_cast<float>(std::exp2(-4.0 / power_of_two)));
  std::vector<float> slopes;
  for (int32_t i = 1; i <= num_heads; ++i) {
    const bool extra = i > power_of_two;
    slopes.push_back(static_cast<float>(extra ? std::pow(extra_base, 2 * (i - power_of_two) - 1) : std::pow(base, i)));
  }
  return slopes;
}

std::vector<float> RoundedAlibi(int32_t num_heads, int32_t num_positions, float scale) {
  std::vector<float> bias;
  bias.reserve(static_cast<size_t>(num_heads) * static_cast<size_t>(num_positions));
  for (const float slope : AlibiSlopes(num_heads)) {
    const float rounded = RoundedToBf16(slope);
    for (int32_t position = 0; position < num_positions; ++position) {
      bias.push_back(RoundedToBf16(rounded * RoundedToBf16(static_cast<float>(position))) * scale);
    }
  }
  return bias;
}

}  // namespace dunlin::engine

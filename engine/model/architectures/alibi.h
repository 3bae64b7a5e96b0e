// SPDX-License-Identifier: Apache-2.0
// ALiBi: scores with a bias that is linear in the position of the key. Source: Press et al. 2021.
#pragma once

#include <cstdint>
#include <vector>

namespace dunlin::engine {

// [num_heads]: powers of 2^(-8 / n) for n heads, n a power of two; further heads take every other one of twice as many
// heads.
std::vector<float> AlibiSlopes(int32_t num_heads);

// AttentionSpec::key_bias [num_heads, num_positions] as Falcon has it: the slope, the position and their product are
// rounded to BF16, and the product is scaled as the scores are, by `scale`. Source: transformers 5.23,
// modeling_falcon.py, build_alibi_tensor and FalconAttention with SDPA (the eager one adds the bias twice).
std::vector<float> RoundedAlibi(int32_t num_heads, int32_t num_positions, float scale);

}  // namespace dunlin::engine

// SPDX-License-Identifier: Apache-2.0
// Seeded inputs of the benches. Every value is exact in all the formats that Dunlin stores (FP32, BF16, FP16, E4M3 with
// a scale), so that one FP64 reference serves every precision and errors come only from the arithmetic. Element i of a
// stream depends only on the stream and i. Any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace dunlin::tools::bench {

// A distinct stream for each tensor of a case.
uint64_t StreamOf(uint64_t seed, uint64_t tensor);

// E4M3 codes, approximately normal: standard deviation 128, clipped at +-448.
void FillCodes(uint64_t stream, std::span<uint8_t> codes);

inline constexpr float kCodeUnit = 0x1p-9F;
// The same codes times kCodeUnit: standard deviation 0.25. The first value of every row is +-0.875, the largest
// possible, so that the E4M3 scale of a row (amax / 448) is kCodeUnit and quantising it is exact. row: floats a row, >
// 0.
void FillRows(uint64_t stream, size_t row, std::span<float> values);

// Multiples of 1/256, uniform in [0, 1).
void FillUniform(uint64_t stream, std::span<float> values);

// Integers in [0, limit), nearly uniform.
void FillIds(uint64_t stream, int32_t limit, std::span<int32_t> ids);

}  // namespace dunlin::tools::bench

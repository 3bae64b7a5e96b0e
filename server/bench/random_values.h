// Seeded inputs of the benches. Every value is exact in all the formats that Dunlin stores (FP32, BF16, FP16, E4M3 with
// a scale), so that one FP64 reference serves every precision and an error is the arithmetic's alone. Element i of a
// stream depends on the stream and i alone. Any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace dunlin::server::bench {

// A stream of its own for each tensor of a case.
uint64_t StreamOf(uint64_t seed, uint64_t tensor);

// E4M3 codes of about a normal's shape: standard deviation 128, cut at +-448.
void FillCodes(uint64_t stream, std::span<uint8_t> codes);

inline constexpr float kCodeUnit = 0x1p-9F;
// The same codes times kCodeUnit: standard deviation 0.25. The first value of every row is +-0.875, the largest there
// is: so the E4M3 scale of a row (amax / 448) is kCodeUnit, and quantising it is exact. row: floats of a row, > 0.
void FillRows(uint64_t stream, size_t row, std::span<float> values);

// Multiples of 1/256 in [0, 1), evenly.
void FillUniform(uint64_t stream, std::span<float> values);

// Integers in [0, limit), evenly enough.
void FillIds(uint64_t stream, int32_t limit, std::span<int32_t> ids);

}  // namespace dunlin::server::bench

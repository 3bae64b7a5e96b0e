// SPDX-License-Identifier: Apache-2.0
// The loops behind MeasureRoofs: chains of multiply-adds that do not depend on each other, and reads of memory. One
// translation unit for each instruction set, with its flags. Any thread.
#pragma once

#include <cstddef>
#include <cstdint>

namespace dunlin::kernels::cpu {

// Runs `rounds` rounds and returns a value that depends on every chain.
using PeakLoop = float (*)(int64_t rounds);
float Sse2Rounds(int64_t rounds);
float Avx2FmaRounds(int64_t rounds);
float Avx512FmaRounds(int64_t rounds);
float Avx512Bf16DotRounds(int64_t rounds);
float AmxBf16Rounds(int64_t rounds);
float NeonRounds(int64_t rounds);
float NeonFmaRounds(int64_t rounds);
float NeonBf16Rounds(int64_t rounds);

// Operations of one round: chains * lanes * 2.
inline constexpr double kSse2RoundFlops = 12.0 * 4 * 2;
inline constexpr double kAvx2FmaRoundFlops = 12.0 * 8 * 2;
inline constexpr double kAvx512FmaRoundFlops = 20.0 * 16 * 2;
inline constexpr double kAvx512Bf16DotRoundFlops = 20.0 * 32 * 2;
inline constexpr double kAmxBf16RoundFlops = 6.0 * 16 * 16 * 32 * 2;
inline constexpr double kNeonRoundFlops = 24.0 * 4 * 2;
inline constexpr double kNeonFmaRoundFlops = kNeonRoundFlops;
inline constexpr double kNeonBf16RoundFlops = 24.0 * 16 * 2;  // a matrix product: 16 for each chain

inline constexpr size_t kReadUnit = 256;  // bytes of one iteration of the read loops

// Reads `bytes` (a multiple of kReadUnit) from a 64-byte aligned address and returns a value that depends on all of
// them. prefetch_ahead: distance in bytes of the prefetches; 0 leaves them to the hardware.
using ReadLoop = uint64_t (*)(const std::byte* data, size_t bytes, size_t prefetch_ahead);
uint64_t Sse2Read(const std::byte* data, size_t bytes, size_t prefetch_ahead);
uint64_t Avx2Read(const std::byte* data, size_t bytes, size_t prefetch_ahead);
uint64_t Avx512Read(const std::byte* data, size_t bytes, size_t prefetch_ahead);
uint64_t NeonRead(const std::byte* data, size_t bytes, size_t prefetch_ahead);

}  // namespace dunlin::kernels::cpu

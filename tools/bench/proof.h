// SPDX-License-Identifier: Apache-2.0
// Verifies that the timed calls did the work: a digest of the whole output, and samples compared with FP64.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tools/bench/record.h"

namespace dunlin::tools::bench {

// SHA-256 in lower-case hexadecimal.
std::string Sha256(std::span<const std::byte> bytes);

// One compared output: the device's value, the FP64 value, and the sum of the magnitudes of its terms.
struct Sample {
  double actual;
  double exact;
  double magnitude;
};

// The largest error of the samples, and the bound: `relative` times the largest magnitude. A non-finite value is an
// infinite error.
Proof CheckSamples(std::string sha256, std::span<const Sample> samples, double relative);

// Makes the proof fail if any value of the output is NaN, sampled or not: no kernel has written it
// (DeviceMemory::Poison). REQUIRES: the proof has a bound.
void RequireWritten(std::span<const float> out, Proof* proof);

// `count` distinct indices spread over [0, size), including the first and the last; all of them when size <= count.
// count >= 2.
std::vector<int64_t> SampleIndices(int64_t size, int64_t count);

}  // namespace dunlin::tools::bench

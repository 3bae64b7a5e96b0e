// What proves that the timed calls did the work: a digest of the whole output, and samples of it against FP64.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "server/bench/record.h"

namespace dunlin::server::bench {

// SHA-256 in lower-case hexadecimal.
std::string Sha256(std::span<const std::byte> bytes);

// One compared output: what the device gave, what FP64 gives, and the sum of the magnitudes of the terms behind it.
struct Sample {
  double actual;
  double exact;
  double magnitude;
};

// Errors of samples, and the bound: `relative` times the largest magnitude. A value that is not finite is an error of
// infinity.
Proof CheckSamples(std::string sha256, std::span<const Sample> samples, double relative);

// `count` distinct indices of [0, size), spread over all of it, the first and the last among them; all when there are
// no more than `count`. count >= 2.
std::vector<int64_t> SampleIndices(int64_t size, int64_t count);

}  // namespace dunlin::server::bench

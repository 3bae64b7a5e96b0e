// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/proof.h"

#include <openssl/evp.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "engine/base/check.h"

namespace dunlin::tools::bench {

std::string Sha256(std::span<const std::byte> bytes) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned length = 0;
  DUNLIN_CHECK(EVP_Digest(bytes.data(), bytes.size(), digest, &length, EVP_sha256(), nullptr) == 1,
               "SHA-256 needs no resource that can run out");
  std::string text;
  for (unsigned i = 0; i < length; ++i) {
    text += "0123456789abcdef"[digest[i] >> 4];
    text += "0123456789abcdef"[digest[i] & 15];
  }
  return text;
}

Proof CheckSamples(std::string sha256, std::span<const Sample> samples, double relative) {
  Proof proof;
  proof.sha256 = std::move(sha256);
  proof.samples = static_cast<int64_t>(samples.size());
  for (const Sample& sample : samples) {
    const double error =
        std::isfinite(sample.actual) ? std::abs(sample.actual - sample.exact) : std::numeric_limits<double>::infinity();
    proof.max_abs_error = std::max(proof.max_abs_error, error);
    proof.bound = std::max(proof.bound, relative * sample.magnitude);
  }
  return proof;
}

void RequireWritten(std::span<const float> out, Proof* proof) {
  const bool written = std::none_of(out.begin(), out.end(), [](float value) { return std::isnan(value); });
  if (!written) proof->max_abs_error = std::numeric_limits<double>::infinity();
}

std::vector<int64_t> SampleIndices(int64_t size, int64_t count) {
  std::vector<int64_t> indices;
  if (size <= count) {
    indices.resize(static_cast<size_t>(size));
    std::iota(indices.begin(), indices.end(), 0);
    return indices;
  }
  for (int64_t i = 0; i < count; ++i) {
    indices.push_back(
        static_cast<int64_t>(static_cast<double>(size - 1) * static_cast<double>(i) / static_cast<double>(count - 1)));
  }
  return indices;
}

}  // namespace dunlin::tools::bench

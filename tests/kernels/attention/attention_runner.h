// SPDX-License-Identifier: Apache-2.0
// A runner computes attention problems; the conformance tests run every problem on each of them. A test program
// defines its runners: the CUDA device's kernels on the host (tests/kernels/cuda/attention), or the devices behind
// modules (tests/kernels/loader).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tests/kernels/attention/dense_problem.h"
#include "tests/kernels/attention/paged_batch.h"

namespace dunlin::kernels::testing {

// How the keys of few rows are divided. kWhole: one block walks through all of them, where the runner supports it.
enum class Division : uint8_t { kAsPlanned, kWhole };

class AttentionRunner {
 public:
  virtual ~AttentionRunner() = default;
  virtual bool Takes(AttentionBackend backend, const AttentionTraits& traits) const = 0;
  virtual const PageFormat& pages() const = 0;
  // What PagedBatch::Run and DenseProblem::Run return. Fail the test on a bad status.
  virtual std::vector<float> Paged(const PagedBatch& batch, AttentionBackend backend, Division division) const = 0;
  virtual std::vector<float> Dense(const DenseProblem& problem, AttentionBackend backend) const = 0;
  // The dtypes whose rounding a backend's queries and weights may have beside keys and values of `dtype`: all those of
  // a call have one of them.
  virtual std::vector<DType> RoundingsOf(AttentionBackend /*backend*/, DType dtype, int32_t /*head_dim*/) const {
    return {dtype};
  }
  // Cases of the dense grid: all pairs and random ones up to this number.
  virtual size_t grid_cases() const = 0;
  virtual bool runs_costly_lengths() const = 0;
};

// By name; null with the reason when it is not there.
struct RunnerRow {
  const char* name;
  const AttentionRunner* (*open)(std::string* reason);
  // The paged problems that are run, and no dense ones; null: all of either.
  bool (*paged_only)(AttentionBackend backend, DType dtype) = nullptr;
};
const std::vector<RunnerRow>& Runners();

}  // namespace dunlin::kernels::testing

// SPDX-License-Identifier: Apache-2.0
// The result of one case, printed as a row of a table or as one JSON object a line.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "kernels/api/dtype.h"
#include "kernels/api/roofs.h"
#include "tools/bench/timing.h"

namespace dunlin::tools::bench {

using Json = nlohmann::ordered_json;

using kernels::Peak;
// The peak that bounds products with inputs of a precision's kind. A device without that peak multiplies FP16 as FP32
// and FP8 as BF16 (BoundOf).
constexpr Peak PeakOf(kernels::Precision precision) {
  constexpr Peak kPeaks[] = {Peak::kFp32, Peak::kBf16, Peak::kFp16, Peak::kFp8};
  return kPeaks[static_cast<int>(kernels::ComputeOf(precision))];
}

// The least work of a call, whatever the implementation.
struct Work {
  double flops = 0.0;  // a multiply-add is two
  double bytes = 0.0;  // that must come from memory
  Peak peak = Peak::kFp32;
};

// How the output was checked.
struct Proof {
  std::string sha256;          // of the whole output of the last timed call
  double max_abs_error = 0.0;  // against FP64, over the samples
  double bound = 0.0;          // largest allowed error; 0: none
  int64_t samples = 0;         // outputs compared
  bool ok() const { return bound == 0.0 || max_abs_error <= bound; }
};

struct Record {
  std::string op;
  std::string case_name;
  std::string backend;  // "" where there is no choice
  std::string precision;
  std::vector<int64_t> shape;
  Work work;
  Timing timing;
  // Of the call, the part spent in its products, and what they compute; 0: not measured.
  double products_us = 0.0;
  double products_flops = 0.0;
  size_t workspace_bytes = 0;  // memory of the call alone
  size_t resident_bytes = 0;   // memory held between calls: inputs, weights, pages, output
  Proof proof;
  Json extra = Json::object();  // further fields of the op
};

// The machine of the run.
struct Machine {
  std::string processor;  // "Intel(R) Xeon(R) Processor @ 2.50GHz, 2 CPUs"; another device's own description
  std::string device;     // "cpu"
  std::string variant;    // "avx512"; "" where the device has none
  kernels::Roofs before;  // the cases; of a JSON record, its case
  kernels::Roofs after;
  kernels::Roofs Best() const;  // the higher of each rate
};

// The least time of `work` under these roofs, and the roof that sets it.
struct Bound {
  const char* roof;  // "fp32_flops", "bf16_flops", "fp16_flops", "fp8_flops" or "dram_read"
  const char* unit;  // with the highest multiply rate
  double us;         // the larger of the next two
  double compute_us;
  double memory_us;
  double variant_us;  // at the rate of the unit that the device's kernels use
};
Bound BoundOf(const Work& work, const kernels::Roofs& roofs);

Json ToJson(const Record& record, const Machine& machine);
// One line on stdout, flushed.
void PrintJson(const Record& record, const Machine& machine);
void PrintTable(const std::vector<Record>& records, const Machine& machine);

}  // namespace dunlin::tools::bench

// What one case of a bench says, and how it is printed: a table for people, one JSON object a line for scripts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "kernels/api/dtype.h"
#include "kernels/api/roofs.h"
#include "server/bench/timing.h"

namespace dunlin::server::bench {

using Json = nlohmann::ordered_json;

// Which multiply-add peak bounds the arithmetic.
enum class Peak : uint8_t { kFp32, kBf16 };
// FP16 weights are widened and multiplied in FP32; FP8 ones as BF16, exactly.
constexpr Peak PeakOf(kernels::Precision precision) {
  const bool fp32 = precision == kernels::Precision::kFp32 || precision == kernels::Precision::kFp16;
  return fp32 ? Peak::kFp32 : Peak::kBf16;
}

// What a call must do at least, whoever does it.
struct Work {
  double flops = 0.0;  // a multiply-add is two
  double bytes = 0.0;  // that must come from memory
  Peak peak = Peak::kFp32;
};

// How the output was checked.
struct Proof {
  std::string sha256;          // of the whole output of the last timed call
  double max_abs_error = 0.0;  // against FP64, over the samples
  double bound = 0.0;          // that the error must stay within; 0: the case sets none
  int64_t samples = 0;         // outputs that were compared
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
  size_t workspace_bytes = 0;  // memory of the call alone
  size_t resident_bytes = 0;   // memory that stays: inputs, weights, pages, output
  Proof proof;
  Json extra = Json::object();  // further fields of the op
};

// What the run was measured on.
struct Machine {
  std::string processor;  // "Intel(R) Xeon(R) Processor @ 2.50GHz, 2 CPUs"
  std::string device;     // "cpu"
  std::string variant;    // "avx512"
  kernels::Roofs before;  // the cases
  kernels::Roofs after;
  kernels::Roofs Best() const;  // the higher of each rate
};

// The least time that `work` takes under these roofs, and which of them says so.
struct Bound {
  const char* roof;  // "fp32_flops", "bf16_flops" or "dram_read"
  double us;
  double variant_us;  // with the variant's own multiply-add rate
};
Bound BoundOf(const Work& work, const kernels::Roofs& roofs);

Json ToJson(const Record& record, const Machine& machine);
void PrintJson(const std::vector<Record>& records, const Machine& machine);
void PrintTable(const std::vector<Record>& records, const Machine& machine);

}  // namespace dunlin::server::bench

// `--mix flash:bf16=3,math:fp32=1`: which share of the requests asks for which profile. Each entry is reported apart.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "dunlin/v1/execution.pb.h"

namespace dunlin::server::load {

struct MixEntry {
  std::string name;  // "flash:bf16", as it was written
  v1::AttentionBackend attention_backend = v1::ATTENTION_BACKEND_AUTO;
  v1::Precision precision = v1::PRECISION_AUTO;
  int64_t weight = 1;  // >= 1
};

// BACKEND:PRECISION[=WEIGHT], comma-separated; BACKEND auto, math, flash, efficient; PRECISION auto, fp32, bf16, fp16,
// fp8. An empty text is one entry "auto:auto". Errors: INVALID_ARGUMENT.
absl::StatusOr<std::vector<MixEntry>> ParseMix(std::string_view text);

// Which entry the next request gets. Smooth weighted round robin: in every `sum of weights` requests each entry comes
// exactly `weight` times, spread evenly. One thread.
class MixPicker {
 public:
  explicit MixPicker(const std::vector<MixEntry>& entries);
  size_t Next();

 private:
  std::vector<int64_t> weights_;
  std::vector<int64_t> credits_;
  int64_t total_ = 0;
};

}  // namespace dunlin::server::load

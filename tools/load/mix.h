// SPDX-License-Identifier: Apache-2.0
// `--mix flash:bf16=3,math:fp32=1`: the shares of the requests that ask for each profile. Each entry is reported
// separately.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "dunlin/v1/execution.pb.h"

namespace dunlin::tools::load {

struct MixEntry {
  std::string name;  // "flash:bf16", as given
  v1::AttentionBackend attention_backend = v1::ATTENTION_BACKEND_AUTO;
  v1::Precision precision = v1::PRECISION_AUTO;
  int64_t weight = 1;  // >= 1
};

// BACKEND:PRECISION[=WEIGHT], comma-separated; each is auto or a row's name in the tables of kernels/api. An empty
// text is one entry "auto:auto". Errors: INVALID_ARGUMENT.
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

}  // namespace dunlin::tools::load

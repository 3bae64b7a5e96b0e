// SPDX-License-Identifier: Apache-2.0
// Limits on a request (`--slo`), and on the whole run (`--check`).
#pragma once

#include <limits>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "tools/load/outcome.h"

namespace dunlin::tools::load {

// A request is good when it completed and none of these is exceeded.
struct Slo {
  static constexpr double kNone = std::numeric_limits<double>::infinity();
  double ttft_ms = kNone;
  double tpot_ms = kNone;
  double itl_ms = kNone;  // the longest gap of the request
  double e2el_ms = kNone;

  bool any() const { return ttft_ms != kNone || tpot_ms != kNone || itl_ms != kNone || e2el_ms != kNone; }
  bool Met(const Outcome& outcome) const;
};

// "ttft_ms=200,itl_ms=50"; keys ttft_ms, tpot_ms, itl_ms, e2el_ms; values > 0. "" has no limit.
// Errors: INVALID_ARGUMENT.
absl::StatusOr<Slo> ParseSlo(std::string_view text);

// "p99_ttft_ms<=200": a number of the result compared with a limit.
struct Check {
  std::string key;  // "a.b" is key b of object a
  bool at_most = true;
  double limit = 0;
};

// KEY<=NUMBER or KEY>=NUMBER. Errors: INVALID_ARGUMENT.
absl::StatusOr<Check> ParseCheck(std::string_view text);

// Empty when the check holds, else why not: "p99_ttft_ms is 231.4; limit is <= 200 (--check)". A missing
// or non-numeric key violates the check.
std::string Violation(const Check& check, const nlohmann::ordered_json& result);

}  // namespace dunlin::tools::load

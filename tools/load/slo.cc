// SPDX-License-Identifier: Apache-2.0
#include "tools/load/slo.h"

#include <nlohmann/json.hpp>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "engine/base/string_view.h"

namespace dunlin::tools::load {
namespace {

double* Field(std::string_view key, Slo* slo) {
  if (key == "ttft_ms") return &slo->ttft_ms;
  if (key == "tpot_ms") return &slo->tpot_ms;
  if (key == "itl_ms") return &slo->itl_ms;
  if (key == "e2el_ms") return &slo->e2el_ms;
  return nullptr;
}

const nlohmann::ordered_json* Find(const std::string& key, const nlohmann::ordered_json& result) {
  const nlohmann::ordered_json* at = &result;
  for (const auto part : absl::StrSplit(key, '.')) {
    const auto found = at->is_object() ? at->find(std::string(part)) : at->end();
    if (!at->is_object() || found == at->end()) return nullptr;
    at = &*found;
  }
  return at;
}

}  // namespace

bool Slo::Met(const Outcome& outcome) const {
  return outcome.ending == Ending::kCompleted && ToMs(outcome.ttft_ns()) <= ttft_ms && outcome.tpot_ms() <= tpot_ms &&
         ToMs(outcome.longest_gap_ns) <= itl_ms && ToMs(outcome.e2el_ns()) <= e2el_ms;
}

absl::StatusOr<Slo> ParseSlo(std::string_view text) {
  Slo slo;
  if (text.empty()) return slo;
  for (const auto part : absl::StrSplit(engine::AbslView(text), ',')) {
    const std::vector<std::string> sides = absl::StrSplit(part, '=');
    double* field = sides.size() == 2 ? Field(sides[0], &slo) : nullptr;
    if (field == nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat("--slo: \"", part, "\" is not KEY=MS with a key of ttft_ms, tpot_ms, itl_ms, e2el_ms"));
    }
    if (!absl::SimpleAtod(sides[1], field) || !(*field > 0)) {
      return absl::InvalidArgumentError(absl::StrCat("--slo: \"", part, "\" has no value above 0"));
    }
  }
  return slo;
}

absl::StatusOr<Check> ParseCheck(std::string_view text) {
  Check check;
  size_t at = text.find("<=");
  if (at == std::string_view::npos) {
    check.at_most = false;
    at = text.find(">=");
  }
  if (at == std::string_view::npos || at == 0 ||
      !absl::SimpleAtod(engine::AbslView(text.substr(at + 2)), &check.limit)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--check: \"", engine::AbslView(text), "\" is neither KEY<=NUMBER nor KEY>=NUMBER"));
  }
  check.key = std::string(text.substr(0, at));
  return check;
}

std::string Violation(const Check& check, const nlohmann::ordered_json& result) {
  const nlohmann::ordered_json* value = Find(check.key, result);
  const std::string limit = absl::StrCat(check.at_most ? "<= " : ">= ", check.limit, " (--check)");
  if (value == nullptr || !value->is_number()) {
    return absl::StrCat(check.key, " is not a number of the result; limit is ", limit);
  }
  const auto number = value->get<double>();
  const bool holds = check.at_most ? number <= check.limit : number >= check.limit;
  return holds ? "" : absl::StrCat(check.key, " is ", number, "; limit is ", limit);
}

}  // namespace dunlin::tools::load

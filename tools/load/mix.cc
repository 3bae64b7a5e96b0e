// SPDX-License-Identifier: Apache-2.0
#include "tools/load/mix.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "engine/base/string_view.h"
#include "kernels/api/attention_backend.h"
#include "kernels/api/dtype.h"

namespace dunlin::tools::load {
namespace {

constexpr int64_t kMaxWeight = 1'000'000;

absl::StatusOr<MixEntry> ParseEntry(const std::string& text) {
  const auto bad = [&text](const std::string& why) {
    return absl::InvalidArgumentError(absl::StrCat("--mix: \"", text, "\" ", why));
  };
  MixEntry entry;
  const std::vector<std::string> sides = absl::StrSplit(text, '=');
  if (sides.size() > 2) return bad("is not BACKEND:PRECISION=WEIGHT");
  if (sides.size() == 2 &&
      (!absl::SimpleAtoi(sides[1], &entry.weight) || entry.weight < 1 || entry.weight > kMaxWeight)) {
    return bad("has a weight that is not in [1, 1000000]");
  }
  entry.name = sides[0];
  const std::vector<std::string> words = absl::StrSplit(absl::AsciiStrToUpper(entry.name), ':');
  if (words.size() != 2) return bad("is not BACKEND:PRECISION=WEIGHT");
  if (!v1::AttentionBackend_Parse(absl::StrCat("ATTENTION_BACKEND_", words[0]), &entry.attention_backend)) {
    return bad("names no attention backend; there are auto, " +
               kernels::JoinNames(kernels::kAttentionBackendTable, ", "));
  }
  if (!v1::Precision_Parse(absl::StrCat("PRECISION_", words[1]), &entry.precision)) {
    return bad("names no precision; there are auto, " + kernels::JoinNames(kernels::kPrecisionTable, ", "));
  }
  return entry;
}

}  // namespace

absl::StatusOr<std::vector<MixEntry>> ParseMix(std::string_view text) {
  std::vector<MixEntry> entries;
  for (const auto part : absl::StrSplit(engine::AbslView(text.empty() ? "auto:auto" : text), ',')) {
    absl::StatusOr<MixEntry> entry = ParseEntry(std::string(part));
    if (!entry.ok()) return entry.status();
    entries.push_back(*std::move(entry));
  }
  return entries;
}

MixPicker::MixPicker(const std::vector<MixEntry>& entries) : credits_(entries.size()) {
  for (const MixEntry& entry : entries) weights_.push_back(entry.weight);
  for (const int64_t weight : weights_) total_ += weight;
}

size_t MixPicker::Next() {
  for (size_t i = 0; i < credits_.size(); ++i) credits_[i] += weights_[i];
  const auto best = std::max_element(credits_.begin(), credits_.end());
  *best -= total_;
  return static_cast<size_t>(best - credits_.begin());
}

}  // namespace dunlin::tools::load

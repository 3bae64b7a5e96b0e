#include "server/bench/options.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "engine/base/string_view.h"

namespace dunlin::server::bench {
namespace {

// Each word of a comma-separated list through `table`, whose rows have names; "all" gives every row.
template <typename Value>
absl::StatusOr<std::vector<Value>> ParseWords(const char* option, const std::string& text,
                                              const std::vector<std::pair<std::string, Value>>& table) {
  std::vector<Value> values;
  std::vector<std::string> known;
  known.reserve(table.size());
  for (const auto& row : table) known.push_back(row.first);
  for (const std::string& word : std::vector<std::string>(absl::StrSplit(text, ','))) {
    const auto found = std::find_if(table.begin(), table.end(), [&](const auto& row) { return row.first == word; });
    if (found != table.end()) {
      values.push_back(found->second);
    } else if (word == "all") {
      for (const auto& row : table) values.push_back(row.second);
    } else {
      return absl::InvalidArgumentError(
          absl::StrCat(option, " is \"", word, "\"; known are ", absl::StrJoin(known, ", "), " and all"));
    }
  }
  return values;
}

}  // namespace

absl::StatusOr<std::vector<int64_t>> ParseNumbers(std::string_view option, std::string_view text, size_t count,
                                                  int64_t limit) {
  std::vector<int64_t> numbers;
  const std::string name(option);
  if (text.empty()) return numbers;
  for (const std::string& word : std::vector<std::string>(absl::StrSplit(std::string(text), ','))) {
    int64_t number = 0;
    if (!absl::SimpleAtoi(word, &number) || number < 1 || number > limit) {
      return absl::InvalidArgumentError(absl::StrCat(name, " has \"", word, "\"; limit is 1 to ", limit));
    }
    numbers.push_back(number);
  }
  if (count != 0 && numbers.size() != count) {
    return absl::InvalidArgumentError(absl::StrCat(name, " has ", numbers.size(), " numbers; it takes ", count));
  }
  return numbers;
}

absl::StatusOr<std::vector<kernels::Precision>> ParsePrecisions(std::string_view text,
                                                                std::vector<kernels::Precision> fallback) {
  if (text.empty()) return fallback;
  std::vector<std::pair<std::string, kernels::Precision>> table;
  for (const kernels::PrecisionTraits& row : kernels::kPrecisionTable) table.emplace_back(row.name, row.precision);
  return ParseWords("--precision", std::string(text), table);
}

absl::StatusOr<std::vector<kernels::AttentionBackend>> ParseBackends(std::string_view text) {
  using kernels::AttentionBackend;
  std::vector<std::pair<std::string, AttentionBackend>> table;
  for (const auto backend : {AttentionBackend::kMath, AttentionBackend::kFlash, AttentionBackend::kEfficient}) {
    table.emplace_back(Name(backend), backend);
  }
  return ParseWords("--backend", std::string(text), table);
}

absl::StatusOr<ModelAxes> ParseModelAxes(const BenchOptions& options, std::vector<int64_t> batches,
                                         int64_t batch_limit) {
  auto precisions = ParsePrecisions(options.precision, {kernels::Precision::kBf16});
  if (!precisions.ok()) return precisions.status();
  auto backends = ParseBackends(options.backend.empty() ? "flash" : options.backend);
  if (!backends.ok()) return backends.status();
  auto asked = ParseNumbers("--batch", options.batch, 0, batch_limit);
  if (!asked.ok()) return asked.status();
  return ModelAxes{.precisions = *std::move(precisions),
                   .backends = *std::move(backends),
                   .batches = asked->empty() ? std::move(batches) : *std::move(asked)};
}

absl::Status UnknownCase(std::string_view name, const std::vector<std::string>& known) {
  return absl::InvalidArgumentError(
      absl::StrCat("--case is \"", std::string(name), "\"; known are ", absl::StrJoin(known, ", ")));
}

}  // namespace dunlin::server::bench

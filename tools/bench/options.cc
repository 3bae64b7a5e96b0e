// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/options.h"

#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "engine/base/string_view.h"
#include "tools/bench/coded_weight.h"

namespace dunlin::tools::bench {
namespace {

// The rows' enumerators, for a comma-separated list of their names; "all" stands for every row.
template <typename Row, size_t kRows, typename Enum>
absl::StatusOr<std::vector<Enum>> ParseNames(const char* option, const std::string& text, const Row (&table)[kRows],
                                             Enum Row::*enumerator) {
  std::vector<Enum> values;
  for (const std::string& name : std::vector<std::string>(absl::StrSplit(text, ','))) {
    if (const Row* row = kernels::FindByName(table, name); row != nullptr) {
      values.push_back(row->*enumerator);
    } else if (name == "all") {
      for (const Row& each : table) values.push_back(each.*enumerator);
    } else {
      return absl::InvalidArgumentError(
          absl::StrCat(option, " is \"", name, "\"; known are ", kernels::JoinNames(table, ", "), " and all"));
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
  return ParseNames("--precision", std::string(text), kernels::kPrecisionTable, &kernels::PrecisionTraits::precision);
}

absl::StatusOr<std::vector<NamedFormat>> ParseWeightFormats(std::string_view text) {
  std::vector<NamedFormat> formats;
  const std::string names = text.empty() ? "all" : std::string(text);
  for (const std::string& name : std::vector<std::string>(absl::StrSplit(names, ','))) {
    const auto* format = kernels::FindByName(kernels::kWeightFormatTable, name);
    if (format != nullptr && KeepsCodes(format->format)) {
      formats.push_back({format->name, format->format});
      continue;
    }
    const auto precisions = ParsePrecisions(name, {});
    if (!precisions.ok()) {
      std::string message(precisions.status().message());
      for (const kernels::WeightFormatTraits& row : kernels::kWeightFormatTable) {
        if (KeepsCodes(row.format)) absl::StrAppend(&message, ", ", row.name);
      }
      return absl::InvalidArgumentError(message);
    }
    for (const kernels::Precision precision : *precisions) {
      formats.push_back({Name(precision), kernels::Traits(precision).format});
    }
  }
  return formats;
}

absl::StatusOr<std::vector<engine::Fp8Recipe>> ParseFp8Recipes(std::string_view text) {
  if (text.empty()) return std::vector<engine::Fp8Recipe>();
  return ParseNames("--fp8-recipe", std::string(text), engine::kFp8RecipeTable, &engine::Fp8RecipeTraits::recipe);
}

absl::StatusOr<std::vector<kernels::AttentionBackend>> ParseBackends(std::string_view text) {
  return ParseNames("--backend", std::string(text), kernels::kAttentionBackendTable,
                    &kernels::AttentionBackendTraits::backend);
}

absl::StatusOr<ModelAxes> ParseModelAxes(const BenchOptions& options, std::vector<int64_t> batches,
                                         int64_t batch_limit) {
  auto precisions = ParsePrecisions(options.precision, {kernels::Precision::kBf16});
  if (!precisions.ok()) return precisions.status();
  std::vector<std::optional<kernels::AttentionBackend>> backends = {std::nullopt};
  if (!options.backend.empty()) {
    const auto named = ParseBackends(options.backend);
    if (!named.ok()) return named.status();
    backends.assign(named->begin(), named->end());
  }
  auto asked = ParseNumbers("--batch", options.batch, 0, batch_limit);
  if (!asked.ok()) return asked.status();
  return ModelAxes{.precisions = *std::move(precisions),
                   .backends = std::move(backends),
                   .batches = asked->empty() ? std::move(batches) : *std::move(asked)};
}

absl::Status UnknownCase(std::string_view name, const std::vector<std::string>& known) {
  return absl::InvalidArgumentError(
      absl::StrCat("--case is \"", std::string(name), "\"; known are ", absl::StrJoin(known, ", ")));
}

}  // namespace dunlin::tools::bench

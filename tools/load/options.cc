// SPDX-License-Identifier: Apache-2.0
#include "tools/load/options.h"

#include <map>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace dunlin::tools::load {
namespace {

constexpr double kSweepStepSeconds = 10;

// "5t" or "50ms".
absl::Status ParseCancelAfter(const std::string& text, LoadShape* shape) {
  if (text.empty()) return absl::OkStatus();
  const size_t digits = text.find_first_not_of("0123456789");
  const std::string unit = digits == std::string::npos ? "" : text.substr(digits);
  int32_t value = 0;
  if (!absl::SimpleAtoi(text.substr(0, digits), &value) || value < 1 || (unit != "t" && unit != "ms")) {
    return absl::InvalidArgumentError(absl::StrCat("--cancel-after: \"", text, "\" is neither 5t (tokens) nor 50ms"));
  }
  if (unit == "t") shape->cancel_after_tokens = value;
  if (unit == "ms") shape->cancel_after_ms = value;
  return absl::OkStatus();
}

}  // namespace

absl::Status Resolve(LoadOptions* options) {
  static const std::map<std::string, ArrivalKind> kArrivals = {
      {"poisson", ArrivalKind::kPoisson}, {"constant", ArrivalKind::kConstant}, {"burst", ArrivalKind::kBurst}};
  static const std::map<std::string, DatasetKind> kDatasets = {{"random", DatasetKind::kRandom},
                                                               {"shared-prefix", DatasetKind::kSharedPrefix},
                                                               {"repeated", DatasetKind::kRepeated},
                                                               {"sharegpt", DatasetKind::kShareGpt},
                                                               {"jsonl", DatasetKind::kJsonl}};
  options->shape.arrivals = kArrivals.at(options->arrivals);
  options->data.kind = kDatasets.at(options->dataset);
  options->data.seed = options->shape.seed;
  options->data.ignore_eos = !options->no_ignore_eos;
  options->data.text_only = options->request.chat;
  if (options->sweep) {
    const bool open = options->shape.rate > 0;
    options->search.start = open ? options->shape.rate : static_cast<double>(options->shape.concurrency);
    options->search.whole_numbers = !open;
    if (options->shape.num_requests == 0 && options->shape.duration_s <= 0)
      options->shape.duration_s = kSweepStepSeconds;
  }
  if (options->shape.num_requests == 0 && options->shape.duration_s <= 0) options->shape.num_requests = 100;
  const bool from_file = options->dataset == "sharegpt" || options->dataset == "jsonl";
  if (from_file == options->data.path.empty()) {
    return absl::InvalidArgumentError(
        "--dataset-path is required by --dataset sharegpt and jsonl, and valid only with them");
  }
  if (options->request.chat && options->prompt_form == "tokens") {
    return absl::InvalidArgumentError("--prompt-form tokens is not valid with --chat: a message is text");
  }
  return ParseCancelAfter(options->cancel_after, &options->shape);
}

}  // namespace dunlin::tools::load

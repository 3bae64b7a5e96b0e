// SPDX-License-Identifier: Apache-2.0
// ResultText: the tables on the terminal.
#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tools/load/result.h"

namespace dunlin::tools::load {
namespace {

double Number(const Json& json, const std::string& key) {
  return json.contains(key) && json[key].is_number() ? json[key].get<double>() : 0;
}

void AddLatencies(const Json& json, std::string* text) {
  constexpr const char* kRows[][2] = {{"ttft", "TTFT ms"},
                                      {"tpot", "TPOT ms"},
                                      {"itl", "ITL ms"},
                                      {"e2el", "E2E ms"},
                                      {"refusal", "refusal ms"},
                                      {"beyond_engine", "beyond engine ms"},
                                      {"send_delay", "send delay ms"}};
  absl::StrAppendFormat(text, "%-18s%10s%10s%10s%10s%10s\n", "", "mean", "p50", "p90", "p99", "max");
  for (const auto& row : kRows) {
    const std::string name = row[0];
    if (!json.contains("mean_" + name + "_ms")) continue;
    absl::StrAppendFormat(text, "%-18s%10.3f%10.3f%10.3f%10.3f%10.3f\n", row[1], Number(json, "mean_" + name + "_ms"),
                          Number(json, "p50_" + name + "_ms"), Number(json, "p90_" + name + "_ms"),
                          Number(json, "p99_" + name + "_ms"), Number(json, "max_" + name + "_ms"));
  }
}

void AddCounts(const Json& json, std::string* text) {
  for (const char* key : {"completed", "refused", "failed", "deadline", "cancelled", "unfinished"}) {
    if (Number(json, key) > 0 || std::string(key) == "completed") {
      absl::StrAppendFormat(text, "%s %.0f  ", key, Number(json, key));
    }
  }
  absl::StrAppendFormat(text, "in %.2f s\n%.2f requests/s, %.1f output tokens/s, %.1f tokens/s",
                        Number(json, "duration"), Number(json, "request_throughput"), Number(json, "output_throughput"),
                        Number(json, "total_token_throughput"));
  if (json["request_goodput"].is_number()) {
    absl::StrAppendFormat(text, "; goodput %.2f requests/s, %.1f%% of those sent", Number(json, "request_goodput"),
                          100 * Number(json, "goodput_ratio"));
  }
  text->append("\n");
}

}  // namespace

std::string ResultText(const Json& result) {
  std::string text;
  AddCounts(result, &text);
  AddLatencies(result, &text);
  absl::StrAppendFormat(&text, "load generator: %.2f CPU s, %.1f us a token\n", Number(result, "client_cpu_seconds"),
                        Number(result, "client_cpu_us_per_token"));
  if (result["profiles"].size() > 1) {
    for (const Json& profile : result["profiles"]) {
      absl::StrAppend(&text, "\n", profile["profile"].get<std::string>(), ": ");
      AddCounts(profile, &text);
      AddLatencies(profile, &text);
    }
  }
  for (const Json& reason : result["reasons"]) {
    absl::StrAppendFormat(&text, "%s: %.0f, %.0f of them with RetryInfo, p50 %.3f ms, p99 %.3f ms: %s\n",
                          reason["reason"].get<std::string>(), Number(reason, "count"),
                          Number(reason, "with_retry_info"), Number(reason, "p50_ms"), Number(reason, "p99_ms"),
                          reason["example"].get<std::string>());
  }
  if (result.contains("server")) {
    for (const auto& [name, after] : result["server"]["after"].items()) {
      absl::StrAppendFormat(&text, "server %-15s before %.0f, most %.0f, after %.0f\n", name,
                            Number(result["server"]["before"], name), Number(result["server"]["max"], name),
                            after.get<double>());
    }
  }
  return text;
}

}  // namespace dunlin::tools::load

// SPDX-License-Identifier: Apache-2.0
#include "tools/load/session.h"

#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <cmath>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "tools/load/grpc_client.h"
#include "tools/load/http_client.h"
#include "tools/load/progress.h"
#include "tools/load/runner.h"

namespace dunlin::tools::load {
namespace {

// A server releases cancelled requests within a step, and closed connections when it sees them: its state after a run
// is read once it is idle, or after this time.
constexpr int kSettleTries = 20;
constexpr absl::Duration kSettleGap = absl::Milliseconds(50);

// How many requests may be in flight: an estimate for an open loop, what it sends in two seconds.
int64_t ExpectedRequests(const LoadShape& shape) {
  return shape.rate > 0 ? static_cast<int64_t>(std::ceil(2 * shape.rate)) + shape.burst : shape.concurrency;
}

Json StepJson(const Json& result, const KneeSearch::Step& step) {
  Json json = {
      {"load", step.load}, {"goodput", step.goodput}, {"goodput_ratio", step.ratio}, {"sustained", step.sustained}};
  for (const char* key : {"completed",          "refused",           "failed",
                          "deadline",           "unfinished",        "duration",
                          "request_throughput", "output_throughput", "total_token_throughput",
                          "p50_ttft_ms",        "p90_ttft_ms",       "p99_ttft_ms",
                          "p50_tpot_ms",        "p99_tpot_ms",       "p50_itl_ms",
                          "p90_itl_ms",         "p99_itl_ms",        "p50_e2el_ms",
                          "p99_e2el_ms",        "p99_send_delay_ms"}) {
    // Without a completed request there is no latency, and charts omit the point.
    const bool latency = std::string_view(key).find("_ms") != std::string_view::npos;
    json[key] = latency && result["completed"] == 0 ? Json() : result[key];
  }
  return json;
}

}  // namespace

Session::Session(const LoadOptions& options)
    : options_(options), io_(std::make_unique<boost::asio::io_context>(/*concurrency_hint=*/1)) {}

Session::~Session() = default;

absl::StatusOr<std::unique_ptr<Session>> Session::Open(const LoadOptions& options) {
  std::unique_ptr<Session> session(new Session(options));
  if (absl::Status s = Resolve(&session->options_); !s.ok()) return s;
  if (absl::Status s = session->Parse(); !s.ok()) return s;
  return session;
}

absl::Status Session::Parse() {
  absl::StatusOr<Slo> slo = ParseSlo(options_.slo);
  if (!slo.ok()) return slo.status();
  slo_ = *slo;
  absl::StatusOr<std::vector<MixEntry>> mix = ParseMix(options_.mix);
  if (!mix.ok()) return mix.status();
  mix_ = *std::move(mix);
  for (const std::string& text : options_.checks) {
    absl::StatusOr<Check> check = ParseCheck(text);
    if (!check.ok()) return check.status();
    checks_.push_back(*std::move(check));
  }
  if (options_.server_metrics.empty()) return absl::OkStatus();
  absl::StatusOr<HttpTarget> target = ResolveHttp(options_.server_metrics, "/metrics", options_.request.tls);
  if (!target.ok()) return target.status();
  target->api_key = options_.request.api_key;
  watch_ = std::make_unique<ServerWatch>(io_.get(), *target);
  return absl::OkStatus();
}

absl::Status Session::Connect(const LoadShape& shape) {
  if (options_.protocol == "dunlin") {
    absl::StatusOr<std::unique_ptr<LoadClient>> client =
        MakeGrpcClient(options_.address, options_.request, ExpectedRequests(shape));
    if (!client.ok()) return client.status();
    client_ = *std::move(client);
  } else {
    const char* path = options_.request.chat ? "/v1/chat/completions" : "/v1/completions";
    absl::StatusOr<HttpTarget> target = ResolveHttp(options_.address + options_.endpoint, path, options_.request.tls);
    if (!target.ok()) return target.status();
    target->api_key = options_.request.api_key;
    client_ = MakeHttpClient(io_.get(), *target, options_.request);
  }
  const absl::StatusOr<LoadClient::Target> target = client_->Connect(options_.connect_timeout_ms);
  if (!target.ok()) return target.status();
  return dataset_ != nullptr ? absl::OkStatus() : OpenPrompts(target->vocab_size);
}

absl::Status Session::OpenPrompts(int32_t vocab_size) {
  DatasetOptions data = options_.data;
  if (vocab_size > 0) data.vocab_size = vocab_size;
  const bool known = vocab_size > 0 && !options_.request.chat;
  const bool tokens = options_.prompt_form == "tokens" || (options_.prompt_form == "auto" && known);
  data.form = tokens ? PromptForm::kTokens : PromptForm::kWords;
  absl::StatusOr<std::unique_ptr<Dataset>> dataset = OpenDataset(data);
  if (!dataset.ok()) return dataset.status();
  dataset_ = *std::move(dataset);
  return absl::OkStatus();
}

absl::StatusOr<Json> Session::Run() {
  return options_.sweep ? RunSweep() : RunOnce(options_.shape);
}

absl::StatusOr<Json> Session::RunOnce(const LoadShape& shape) {
  if (absl::Status s = Connect(shape); !s.ok()) return s;
  double fds_before = -1;
  if (watch_ != nullptr) {
    const absl::StatusOr<ServerSample> before = watch_->ReadNow();
    if (!before.ok()) return before.status();
    fds_before = before->open_fds;
    watch_->Start();
  }
  Progress progress(!options_.quiet && isatty(STDERR_FILENO) != 0);
  Runner runner({io_.get(), client_.get(), dataset_.get(), &mix_}, shape, slo_);
  const Recording recording = runner.Run(progress.on_tick());
  interrupted_ |= runner.interrupted();
  client_.reset();  // its connections are no part of the server's state after the run
  if (watch_ != nullptr) {
    watch_->Stop();
    if (absl::Status s = ReadAfter(fds_before); !s.ok()) return s;
  }
  RunDescription run{
      options_.protocol, options_.request.model, options_.dataset, options_.label, "", shape, slo_, mix_};
  run.date = absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", absl::Now(), absl::UTCTimeZone());
  return ResultJson(run, recording, watch_ == nullptr ? std::vector<ServerSample>() : watch_->TakeSamples());
}

absl::Status Session::ReadAfter(double fds_before) {
  for (int i = 0; i < kSettleTries; ++i) {
    const absl::StatusOr<ServerSample> sample = watch_->ReadNow();
    if (!sample.ok()) return sample.status();
    const bool idle = sample->running <= 0 && sample->waiting <= 0 && sample->kv_pages_used <= 0;
    if (idle && sample->open_fds <= fds_before) break;
    absl::SleepFor(kSettleGap);
  }
  return absl::OkStatus();
}

absl::StatusOr<Json> Session::RunSweep() {
  KneeSearch search(options_.search);
  Json best;
  Json steps = Json::array();
  while (const std::optional<double> load = search.Next()) {
    LoadShape shape = options_.shape;
    if (shape.rate > 0) {
      shape.rate = *load;
    } else {
      shape.concurrency = static_cast<int64_t>(*load);
    }
    absl::StatusOr<Json> result = RunOnce(shape);
    if (!result.ok()) return result.status();
    if (interrupted_) break;
    const double ratio = (*result)["goodput_ratio"].get<double>();
    const double goodput = (*result)[slo_.any() ? "request_goodput" : "request_throughput"].get<double>();
    search.Add({*load, goodput, ratio});
    const KneeSearch::Step& step = search.steps().back();
    steps.push_back(StepJson(*result, step));
    if (step.sustained || best.is_null()) best = *std::move(result);
    std::cerr << absl::StrFormat("%s %.4g: goodput %.2f requests/s, %.1f%% good%s\n",
                                 shape.rate > 0 ? "rate" : "requests at once", step.load, step.goodput,
                                 100 * step.ratio, step.sustained ? "" : ", not sustained");
  }
  if (best.is_null()) return absl::CancelledError("interrupted before the first step ended");
  const std::optional<KneeSearch::Step> knee = search.knee();
  best["sweep"] = {{"unit", options_.shape.rate > 0 ? "offered requests/s" : "requests at once"},
                   {"knee", knee.has_value() ? Json(knee->load) : Json()},
                   {"knee_goodput", knee.has_value() ? Json(knee->goodput) : Json()},
                   {"steps", std::move(steps)}};
  return best;
}

std::vector<std::string> Session::Violations(const Json& result) const {
  std::vector<std::string> lines;
  for (const Check& check : checks_) {
    if (std::string line = Violation(check, result); !line.empty()) lines.push_back(std::move(line));
  }
  const int64_t failed = result["failed"].get<int64_t>();
  if (failed > 0 && result["completed"] == 0) {
    lines.push_back(absl::StrCat("no request completed, and ", failed, " failed"));
  }
  const int64_t limit = options_.shape.max_errors;
  if (limit >= 0 && failed > limit) {
    lines.push_back(absl::StrCat("failed is ", failed, "; limit is ", limit, " (--max-errors)"));
  }
  return lines;
}

}  // namespace dunlin::tools::load

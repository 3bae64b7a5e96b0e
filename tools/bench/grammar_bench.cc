// SPDX-License-Identifier: Apache-2.0
// Constrained against unconstrained decoding, through the engine that serves both: each pair of runs decodes the same
// streams once under a JSON schema and once without, in alternating order, so that both see the same machine.
#include "tools/bench/grammar_bench.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/loop/engine.h"
#include "engine/runtime/model_runtime.h"
#include "tools/bench/grammar_constraint.h"
#include "tools/bench/model_work.h"
#include "tools/bench/proof.h"
#include "tools/bench/random_values.h"

namespace dunlin::tools::bench {
namespace {

using engine::FinishReason;
using engine::TokenId;

engine::TimeNs Clock() {
  return static_cast<engine::TimeNs>(Now() * 1e9);
}

// The tokens of one stream, with the time of each. Written by the engine thread, read after the end.
class Stream : public engine::OutputSink {
 public:
  explicit Stream(int32_t new_tokens) {
    tokens_.reserve(static_cast<size_t>(new_tokens));
    times_.reserve(static_cast<size_t>(new_tokens));
  }
  bool OnToken(const engine::TokenOutput& token) override {
    tokens_.push_back(token.token_id);
    times_.push_back(Now());
    return true;
  }
  void OnPromptToken(int32_t /*position*/, const engine::TokenOutput& /*token*/) override {}
  void OnFinish(const engine::FinishInfo& info) override {
    reason_ = info.reason;
    ended_.store(true);
    ended_.notify_all();
  }

  // As long as the engine runs; a failed device ends it too.
  FinishReason WaitForEnd() const {
    ended_.wait(false);
    return reason_;
  }
  const std::vector<TokenId>& tokens() const { return tokens_; }
  const std::vector<double>& times() const { return times_; }

 private:
  std::vector<TokenId> tokens_;
  std::vector<double> times_;
  FinishReason reason_ = FinishReason::kInternal;
  std::atomic<bool> ended_{false};
};

// Decoding while every stream does.
struct Decode {
  double tokens_per_s = 0.0;
  std::vector<TokenId> tokens;  // of all streams
};

class GrammarRun {
 public:
  GrammarRun(Session* session, const GrammarCase& which)
      : session_(*session),
        case_(which),
        prompt_tokens_(session->options().prompt_tokens),
        new_tokens_(session->options().new_tokens) {}

  absl::Status Run();

 private:
  absl::Status StartEngine();
  absl::StatusOr<Decode> DecodeAll(const std::shared_ptr<const engine::TokenConstraint>& constraint, uint64_t seed);
  engine::Request RequestOf(int32_t stream, uint64_t seed) const;
  Record RecordOf(const std::vector<Decode>& constrained, const std::vector<Decode>& free) const;

  Session& session_;
  const GrammarCase case_;
  const int32_t prompt_tokens_;
  const int32_t new_tokens_;
  size_t resident_bytes_ = 0;
  size_t workspace_bytes_ = 0;
  std::unique_ptr<engine::Engine> engine_;
};

absl::Status GrammarRun::StartEngine() {
  const engine::ModelConfig& config = case_.model->config();
  engine::EngineOptions options = OptionsFor(config, case_.profile, case_.batch, prompt_tokens_ + new_tokens_);
  options.kv_memory_bytes *= 2;
  auto runtime = engine::ModelRuntime::Create(case_.model, options);
  if (!runtime.ok()) return runtime.status();
  resident_bytes_ = case_.model->weight_bytes(case_.profile.precision) + (*runtime)->memory_plan().total();
  workspace_bytes_ = (*runtime)->memory_plan()[engine::BufferId::kWorkspace];
  engine_ = std::make_unique<engine::Engine>(options, config, *std::move(runtime), &Clock, nullptr);
  return absl::OkStatus();
}

engine::Request GrammarRun::RequestOf(int32_t stream, uint64_t seed) const {
  engine::Request request;
  request.prompt.resize(static_cast<size_t>(prompt_tokens_));
  FillIds(StreamOf(session_.options().seed, static_cast<uint64_t>(stream)), case_.model->config().vocab_size,
          request.prompt);
  request.sampling.seed = seed;
  request.stopping.max_tokens = new_tokens_;
  request.stopping.ignore_eos = true;
  request.profile = case_.profile;
  request.output_index = stream;
  return request;
}

absl::StatusOr<Decode> GrammarRun::DecodeAll(const std::shared_ptr<const engine::TokenConstraint>& constraint,
                                             uint64_t seed) {
  std::vector<std::shared_ptr<Stream>> streams;
  for (int32_t i = 0; i < case_.batch; ++i) {
    engine::Request request = RequestOf(i, seed);
    request.constraint = constraint;
    if (absl::Status status = engine_->Validate(request); !status.ok()) return status;
    streams.push_back(std::make_shared<Stream>(new_tokens_));
    const auto id = engine_->Submit(std::move(request), streams.back());
    if (!id.ok()) return id.status();
  }
  Decode decode;
  double begin = 0.0;
  double end = 0.0;
  for (const auto& stream : streams) {
    if (const FinishReason reason = stream->WaitForEnd(); reason != FinishReason::kLength) {
      return absl::DataLossError(absl::StrCat("a stream ended after ", stream->tokens().size(), " of ", new_tokens_,
                                              " tokens, by reason ", static_cast<int>(reason)));
    }
    begin = std::max(begin, stream->times().front());
    end = end == 0.0 ? stream->times().back() : std::min(end, stream->times().back());
    decode.tokens.insert(decode.tokens.end(), stream->tokens().begin(), stream->tokens().end());
  }
  int64_t drawn = 0;
  for (const auto& stream : streams) {
    drawn += std::count_if(stream->times().begin(), stream->times().end(),
                           [begin, end](double time) { return time > begin && time <= end; });
  }
  if (end <= begin) return absl::FailedPreconditionError("--new-tokens are too few: the streams never decode together");
  decode.tokens_per_s = static_cast<double>(drawn) / (end - begin);
  return decode;
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return 0.5 * (values[(values.size() - 1) / 2] + values[values.size() / 2]);
}

Record GrammarRun::RecordOf(const std::vector<Decode>& constrained, const std::vector<Decode>& free) const {
  std::vector<double> seconds;
  std::vector<double> free_rates;
  std::vector<double> ratios;
  for (size_t i = 0; i < constrained.size(); ++i) {
    seconds.push_back(case_.batch / constrained[i].tokens_per_s);
    free_rates.push_back(free[i].tokens_per_s);
    ratios.push_back(constrained[i].tokens_per_s / free[i].tokens_per_s);
  }
  Record record;
  record.op = "model";
  record.case_name = case_.name;
  record.backend = Name(case_.profile.attention_backend);
  record.precision = Name(case_.profile.precision);
  record.shape = {case_.batch, prompt_tokens_, new_tokens_};
  record.work = DecodeWork(case_.model->config(), case_.profile, case_.batch, prompt_tokens_ + new_tokens_ / 2.0);
  record.timing = TimingOf(seconds);
  record.workspace_bytes = workspace_bytes_;
  record.resident_bytes = resident_bytes_;
  record.proof.sha256 = Sha256(std::as_bytes(std::span(constrained.front().tokens)));
  record.extra["phase"] = "grammar";
  record.extra["batch"] = case_.batch;
  record.extra["tokens_per_s"] = case_.batch / record.timing.median_us * 1e6;
  record.extra["unconstrained_tokens_per_s"] = Median(free_rates);
  record.extra["against_unconstrained"] = Median(ratios);
  record.extra["longest_mask_wait_us"] = static_cast<double>(engine_->stats().longest_mask_wait_ns) / 1e3;
  return record;
}

// The first pair is a warm-up: it fills the prefix cache, from which all later runs take their prompts.
absl::Status GrammarRun::Run() {
  const auto constraint = JsonConstraint(case_.model->config(), session_.options().model);
  if (!constraint.ok()) return constraint.status();
  if (absl::Status status = StartEngine(); !status.ok()) return status;
  std::vector<Decode> constrained;
  std::vector<Decode> free;
  double begin = 0.0;
  for (int32_t pair = 0; pair <= kMinIterations || Now() - begin < session_.options().max_seconds; ++pair) {
    for (const bool first : {true, false}) {
      const bool under_grammar = first == (pair % 2 == 0);
      auto decode =
          DecodeAll(under_grammar ? *constraint : nullptr, session_.options().seed + static_cast<uint64_t>(pair));
      if (!decode.ok()) return decode.status();
      if (pair > 0) (under_grammar ? constrained : free).push_back(*std::move(decode));
    }
    if (pair == 0) begin = Now();
  }
  session_.Add(RecordOf(constrained, free));
  return absl::OkStatus();
}

}  // namespace

absl::Status BenchGrammar(Session* session, const GrammarCase& which) {
  return GrammarRun(session, which).Run();
}

}  // namespace dunlin::tools::bench

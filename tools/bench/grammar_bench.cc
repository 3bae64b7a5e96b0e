// SPDX-License-Identifier: Apache-2.0
// Constrained against unconstrained decoding, through the engine that serves both: each pair of runs decodes the same
// streams once under a JSON schema and once without, in alternating order, so that both see the same machine.
#include "tools/bench/grammar_bench.h"

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "engine/loop/engine.h"
#include "engine/runtime/model_runtime.h"
#include "tools/bench/decode_streams.h"
#include "tools/bench/grammar_constraint.h"
#include "tools/bench/model_work.h"
#include "tools/bench/proof.h"
#include "tools/bench/random_values.h"

namespace dunlin::tools::bench {
namespace {

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
  absl::StatusOr<StreamsDecode> DecodeAll(const std::shared_ptr<const engine::TokenConstraint>& constraint,
                                          uint64_t seed);
  engine::Request RequestOf(int32_t stream, uint64_t seed) const;
  Record RecordOf(const std::vector<StreamsDecode>& constrained, const std::vector<StreamsDecode>& free) const;

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
  engine_ = std::make_unique<engine::Engine>(options, config, *std::move(runtime), &StreamClock, nullptr);
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

absl::StatusOr<StreamsDecode> GrammarRun::DecodeAll(const std::shared_ptr<const engine::TokenConstraint>& constraint,
                                                    uint64_t seed) {
  std::vector<engine::Request> requests;
  for (int32_t i = 0; i < case_.batch; ++i) {
    requests.push_back(RequestOf(i, seed));
    requests.back().constraint = constraint;
  }
  return DecodeStreams(requests, engine_.get());
}

Record GrammarRun::RecordOf(const std::vector<StreamsDecode>& constrained,
                            const std::vector<StreamsDecode>& free) const {
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
  std::vector<StreamsDecode> constrained;
  std::vector<StreamsDecode> free;
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

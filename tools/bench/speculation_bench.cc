// SPDX-License-Identifier: Apache-2.0
// Speculative against plain decoding: each pair of runs decodes the same streams with and without guesses, in
// alternating order, so that both see the same machine.
#include "tools/bench/speculation_bench.h"

#include <sys/resource.h>

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "engine/loop/engine.h"
#include "engine/request/speculation.h"
#include "engine/runtime/kv_demand.h"
#include "engine/runtime/model_runtime.h"
#include "engine/runtime/profiles.h"
#include "tools/bench/decode_streams.h"
#include "tools/bench/model_work.h"
#include "tools/bench/proof.h"
#include "tools/bench/random_values.h"

namespace dunlin::tools::bench {
namespace {

constexpr size_t kPhraseTokens = 24;

struct Text {
  const char* name;
  bool repeats;
};
constexpr Text kTexts[] = {{"repeated", true}, {"random", false}};

// Of all threads of the process.
double ProcessorSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// With and without guesses.
struct Pair {
  StreamsDecode decode[2];
  double processor_s[2] = {};
};

class SpeculationRun {
 public:
  SpeculationRun(Session* session, const SpeculationCase& which) : session_(*session), case_(which) {}
  absl::Status Run();

 private:
  absl::Status StartEngine();
  std::vector<engine::Request> RequestsOf(const Text& text, uint64_t seed, int32_t max_drafts) const;
  absl::StatusOr<Pair> RunPair(const Text& text, int32_t number);
  absl::Status RunText(const Text& text);
  Record RecordOf(const Text& text, const std::vector<Pair>& pairs) const;

  Session& session_;
  const SpeculationCase case_;
  size_t resident_bytes_ = 0;
  size_t workspace_bytes_ = 0;
  std::unique_ptr<engine::Engine> engine_;
};

absl::Status SpeculationRun::StartEngine() {
  const engine::ModelConfig& config = case_.model->config();
  const int32_t tokens = session_.options().prompt_tokens + session_.options().new_tokens;
  engine::EngineOptions options = OptionsFor(config, case_.profile, case_.batch, tokens);
  options.kv_memory_bytes *= 2;
  if (config.is_recurrent()) {  // a state for each guess
    engine::EngineOptions roomy = options;
    roomy.max_sequences *= 1 + engine::kMaxDrafts;
    options.kv_memory_bytes = engine::KvDemandOf(config, {case_.profile.precision}, roomy).most;
  }
  auto runtime = engine::ModelRuntime::Create(case_.model, options);
  if (!runtime.ok()) return runtime.status();
  resident_bytes_ = case_.model->weight_bytes(case_.profile.precision) + (*runtime)->memory_plan().total();
  workspace_bytes_ = (*runtime)->memory_plan()[engine::BufferId::kWorkspace];
  engine_ = std::make_unique<engine::Engine>(options, config, *std::move(runtime), &StreamClock, nullptr);
  return absl::OkStatus();
}

std::vector<engine::Request> SpeculationRun::RequestsOf(const Text& text, uint64_t seed, int32_t max_drafts) const {
  std::vector<engine::Request> requests(static_cast<size_t>(case_.batch));
  for (size_t i = 0; i < requests.size(); ++i) {
    engine::Request& request = requests[i];
    request.prompt.resize(static_cast<size_t>(session_.options().prompt_tokens));
    FillIds(StreamOf(session_.options().seed, i), case_.model->config().vocab_size, request.prompt);
    if (text.repeats) {
      for (size_t k = kPhraseTokens; k < request.prompt.size(); ++k) {
        request.prompt[k] = request.prompt[k - kPhraseTokens];
      }
    }
    request.sampling.temperature = text.repeats ? 0.0F : 1.0F;
    request.sampling.seed = seed;
    request.stopping.max_tokens = session_.options().new_tokens;
    request.stopping.ignore_eos = true;
    request.profile = case_.profile;
    request.output_index = static_cast<int32_t>(i % engine::kMaxOutputsPerRequest);
    request.max_drafts = max_drafts;
  }
  return requests;
}

absl::StatusOr<Pair> SpeculationRun::RunPair(const Text& text, int32_t number) {
  Pair pair;
  const uint64_t seed = session_.options().seed + static_cast<uint64_t>(number);
  for (const int turn : {0, 1}) {
    const int plain = turn ^ (number % 2);
    const double began = ProcessorSeconds();
    auto decode =
        DecodeStreams(RequestsOf(text, seed, plain == 1 ? 0 : MaxDraftsOf(session_.options())), engine_.get());
    if (!decode.ok()) return decode.status();
    pair.processor_s[plain] = ProcessorSeconds() - began;
    pair.decode[plain] = *std::move(decode);
  }
  if (pair.decode[0].tokens != pair.decode[1].tokens) return absl::DataLossError("a guess has changed a token");
  return pair;
}

Record SpeculationRun::RecordOf(const Text& text, const std::vector<Pair>& pairs) const {
  std::vector<double> seconds;
  std::vector<double> plain_rates;
  std::vector<double> ratios;
  std::vector<double> processor_ratios;
  int64_t drafted = 0;
  int64_t accepted = 0;
  for (const Pair& pair : pairs) {
    seconds.push_back(case_.batch / pair.decode[0].tokens_per_s);
    plain_rates.push_back(pair.decode[1].tokens_per_s);
    ratios.push_back(pair.decode[0].tokens_per_s / pair.decode[1].tokens_per_s);
    processor_ratios.push_back(pair.processor_s[0] / pair.processor_s[1]);
    drafted += pair.decode[0].drafted;
    accepted += pair.decode[0].accepted;
  }
  const BenchOptions& options = session_.options();
  Record record;
  record.op = "model";
  record.case_name = case_.name;
  record.backend = Name(case_.profile.attention_backend);
  record.precision = Name(case_.profile.precision);
  record.shape = {case_.batch, options.prompt_tokens, options.new_tokens};
  record.work =
      DecodeWork(case_.model->config(), case_.profile, case_.batch, options.prompt_tokens + options.new_tokens / 2.0);
  record.timing = TimingOf(seconds);
  record.workspace_bytes = workspace_bytes_;
  record.resident_bytes = resident_bytes_;
  record.proof.sha256 = Sha256(std::as_bytes(std::span(pairs.front().decode[0].tokens)));
  record.extra["phase"] = "speculation";
  record.extra["text"] = text.name;
  record.extra["batch"] = case_.batch;
  record.extra["tokens_per_s"] = case_.batch / record.timing.median_us * 1e6;
  record.extra["plain_tokens_per_s"] = Median(plain_rates);
  record.extra["against_plain"] = Median(ratios);
  record.extra["processor_against_plain"] = Median(processor_ratios);
  record.extra["drafted_tokens"] = drafted;
  record.extra["accepted_tokens"] = accepted;
  return record;
}

// The first pair is a warm-up: it fills the prefix cache, from which all later runs take their prompts, and the
// scheduler learns what a row costs.
absl::Status SpeculationRun::RunText(const Text& text) {
  std::vector<Pair> pairs;
  double begin = 0.0;
  for (int32_t number = 0; number <= kMinIterations || Now() - begin < session_.options().max_seconds; ++number) {
    auto pair = RunPair(text, number);
    if (!pair.ok()) return pair.status();
    if (number > 0) pairs.push_back(*std::move(pair));
    if (number == 0) begin = Now();
  }
  session_.Add(RecordOf(text, pairs));
  return absl::OkStatus();
}

absl::Status SpeculationRun::Run() {
  const engine::ProfileTable profiles(case_.model->config(), case_.model->precisions(), *case_.model->device(), {});
  if (!profiles.speculation_refusal().empty()) return absl::FailedPreconditionError(profiles.speculation_refusal());
  absl::Status status = StartEngine();
  for (const Text& text : kTexts) {
    if (status.ok()) status = RunText(text);
  }
  return status;
}

}  // namespace

int32_t MaxDraftsOf(const BenchOptions& options) {
  return engine::MaxDraftsNamed(options.speculation).value_or(0);
}

absl::Status BenchSpeculation(Session* session, const SpeculationCase& which) {
  return SpeculationRun(session, which).Run();
}

}  // namespace dunlin::tools::bench

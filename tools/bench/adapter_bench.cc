// SPDX-License-Identifier: Apache-2.0
// Decode steps with adapters against steps without, in turns: both compute the same positions of the same streams, so
// that they see the same context and the same machine.
#include "tools/bench/adapter_bench.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "engine/adapters/load_adapter.h"
#include "engine/plan/sequence_view.h"
#include "engine/runtime/model_runtime.h"
#include "kernels/api/float_formats.h"
#include "tools/bench/model_work.h"
#include "tools/bench/proof.h"
#include "tools/bench/random_values.h"

namespace dunlin::tools::bench {
namespace {

constexpr float kMatrixScale = 0.02F;  // of values in [-0.5, 0.5): logits stay finite

double MedianOf(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return 0.5 * (values[(values.size() - 1) / 2] + values[values.size() / 2]);
}

engine::AdapterMatrix RandomMatrix(const std::string& name, int64_t rows, int64_t columns, uint64_t stream) {
  return {.tensor = name,
          .file = "random",
          .shape = {rows, columns},
          .dtype = kernels::DType::kBF16,
          .read = [stream](std::span<std::byte> out) {
            std::vector<float> values(out.size() / sizeof(uint16_t));
            FillUniform(stream, values);
            for (size_t i = 0; i < values.size(); ++i) {
              const uint16_t bits = kernels::FloatToBf16(kMatrixScale * (values[i] - 0.5F));
              std::copy_n(reinterpret_cast<const std::byte*>(&bits), sizeof(bits), out.data() + i * sizeof(bits));
            }
            return absl::OkStatus();
          }};
}

class AdapterRun {
 public:
  AdapterRun(Session* session, const AdapterCase& which, int32_t num_adapters)
      : session_(*session),
        case_(which),
        num_adapters_(num_adapters),
        prompt_tokens_(session->options().prompt_tokens),
        new_tokens_(session->options().new_tokens) {}

  absl::Status Run();

 private:
  absl::Status Prepare();
  absl::Status LoadAdapters();
  // Of one sequence the tokens [first, first + count), with its adapter or without.
  void Add(size_t sequence, int32_t first, int32_t count, bool adapted);
  // Launches and collects plan_; seconds.
  absl::StatusOr<double> RunStep();
  absl::Status Prefill();
  absl::StatusOr<double> Decode(bool adapted);
  Record RecordOf(const std::vector<double>& adapted, const std::vector<double>& base) const;

  Session& session_;
  const AdapterCase case_;
  const int32_t num_adapters_;
  const int32_t prompt_tokens_;
  const int32_t new_tokens_;
  std::vector<std::shared_ptr<const engine::Adapter>> adapters_;
  std::unique_ptr<engine::ModelRuntime> runtime_;
  std::vector<std::vector<engine::TokenId>> tokens_;  // of each stream
  std::vector<std::vector<engine::PageId>> pages_;
  engine::StepPlan plan_;
  engine::StepResult result_;
};

absl::Status AdapterRun::LoadAdapters() {
  const int32_t rank = session_.options().rank;
  for (int32_t i = 0; i < num_adapters_; ++i) {
    std::vector<engine::AdapterModule> modules;
    for (const engine::AdaptableModule& module : case_.model->adaptable().modules) {
      const bool of_layer = module.projection != engine::Projection::kHead;
      if (engine::IsOfExperts(module.projection) || !of_layer) continue;
      const uint64_t stream = StreamOf(session_.options().seed, static_cast<uint64_t>(i) << 32 | 2 * modules.size());
      modules.push_back({.name = module.name,
                         .down = RandomMatrix(module.name + ".lora_A", rank, module.in_features, stream),
                         .up = RandomMatrix(module.name + ".lora_B", module.out_features, rank, stream + 1),
                         .rank = rank,
                         .alpha = static_cast<double>(rank)});
    }
    auto adapter = engine::MakeAdapter(*case_.model, modules, {.max_rank = rank, .max_bytes = SIZE_MAX});
    if (!adapter.ok()) return adapter.status();
    adapters_.push_back(*std::move(adapter));
  }
  return absl::OkStatus();
}

absl::Status AdapterRun::Prepare() {
  if (absl::Status status = LoadAdapters(); !status.ok()) return status;
  const engine::ModelConfig& config = case_.model->config();
  engine::EngineOptions options = OptionsFor(config, case_.profile, case_.batch, prompt_tokens_ + new_tokens_);
  options.adapters = {.max_adapters = num_adapters_, .max_rank = session_.options().rank};
  auto runtime = engine::ModelRuntime::Create(case_.model, options);
  if (!runtime.ok()) return runtime.status();
  runtime_ = *std::move(runtime);
  const int32_t pages = PagesOf(config, case_.profile, prompt_tokens_ + new_tokens_);
  for (int32_t i = 0; i < case_.batch; ++i) {
    std::vector<engine::TokenId>& tokens = tokens_.emplace_back(static_cast<size_t>(prompt_tokens_));
    FillIds(StreamOf(session_.options().seed, static_cast<uint64_t>(i)), config.vocab_size, tokens);
    pages_.emplace_back(static_cast<size_t>(pages));
    std::iota(pages_.back().begin(), pages_.back().end(), i * pages);
  }
  return absl::OkStatus();
}

void AdapterRun::Add(size_t sequence, int32_t first, int32_t count, bool adapted) {
  engine::SamplingParams greedy;
  greedy.temperature = 0.0F;
  const std::vector<engine::TokenId>& tokens = tokens_[sequence];
  engine::AppendSequence(
      case_.profile,
      {.tokens = tokens,
       .prompt_len = prompt_tokens_,
       .pages = pages_[sequence],
       .sampling = greedy,
       .stopping = {},
       .state = {.slot = static_cast<int32_t>(sequence)},
       .adapter = adapted ? adapters_[sequence % adapters_.size()].get() : nullptr},
      {.first_position = first, .num_tokens = count, .samples = first + count == static_cast<int32_t>(tokens.size())},
      &plan_);
}

absl::StatusOr<double> AdapterRun::RunStep() {
  const double begin = Now();
  const absl::StatusOr<engine::StepHandle> handle = runtime_->Launch(plan_);
  if (!handle.ok()) return handle.status();
  if (absl::Status status = runtime_->Collect(*handle, &result_); !status.ok()) return status;
  const double seconds = Now() - begin;
  for (size_t i = 0; i < plan_.sequences.size(); ++i) {
    if (plan_.sequences[i].samples && !result_.outputs[i].sampled) return absl::DataLossError("logits were not finite");
  }
  return seconds;
}

absl::Status AdapterRun::Prefill() {
  for (size_t i = 0; i < tokens_.size(); ++i) {
    for (int32_t first = 0; first < prompt_tokens_; first += kStepTokens) {
      plan_.Clear();
      Add(i, first, std::min(kStepTokens, prompt_tokens_ - first), true);
      if (const auto step = RunStep(); !step.ok()) return step.status();
    }
    tokens_[i].push_back(result_.outputs[0].token.token_id);
  }
  return absl::OkStatus();
}

absl::StatusOr<double> AdapterRun::Decode(bool adapted) {
  plan_.Clear();
  for (size_t i = 0; i < tokens_.size(); ++i) Add(i, static_cast<int32_t>(tokens_[i].size()) - 1, 1, adapted);
  return RunStep();
}

Record AdapterRun::RecordOf(const std::vector<double>& adapted, const std::vector<double>& base) const {
  std::vector<double> ratios;
  for (size_t i = 0; i < adapted.size(); ++i) ratios.push_back(base[i] / adapted[i]);
  Record record;
  record.op = "model";
  record.case_name = case_.name;
  record.backend = Name(case_.profile.attention_backend);
  record.precision = Name(case_.profile.precision);
  record.shape = {case_.batch, prompt_tokens_, new_tokens_};
  record.work = DecodeWork(case_.model->config(), case_.profile, case_.batch, prompt_tokens_ + new_tokens_ / 2.0);
  const auto num_used = static_cast<size_t>(std::min(case_.batch, num_adapters_));
  for (size_t i = 0; i < num_used; ++i) record.work.bytes += static_cast<double>(adapters_[i]->bytes());
  record.timing = TimingOf(adapted);
  record.workspace_bytes = runtime_->memory_plan()[engine::BufferId::kWorkspace];
  record.resident_bytes = case_.model->weight_bytes(case_.profile.precision) + runtime_->memory_plan().total();
  std::vector<engine::TokenId> drawn;
  for (const std::vector<engine::TokenId>& tokens : tokens_) {
    drawn.insert(drawn.end(), tokens.begin() + prompt_tokens_, tokens.end());
  }
  record.proof.sha256 = Sha256(std::as_bytes(std::span(drawn)));
  record.extra["phase"] = "adapters";
  record.extra["batch"] = case_.batch;
  record.extra["adapters"] = num_adapters_;
  record.extra["rank"] = session_.options().rank;
  record.extra["adapter_bytes"] = adapters_.front()->bytes();
  record.extra["tokens_per_s"] = case_.batch / record.timing.median_us * 1e6;
  record.extra["base_tokens_per_s"] = case_.batch / MedianOf(base);
  record.extra["against_base"] = MedianOf(ratios);
  return record;
}

// The order of a pair alternates. The first pair is a warm-up.
absl::Status AdapterRun::Run() {
  if (absl::Status status = Prepare(); !status.ok()) return status;
  if (absl::Status status = Prefill(); !status.ok()) return status;
  std::vector<double> adapted;
  std::vector<double> base;
  const double begin = Now();
  for (int32_t step = 1; step < new_tokens_; ++step) {
    double seconds[2] = {};
    std::vector<engine::StepOutput> drawn;
    for (const bool first : {true, false}) {
      const bool with = first == (step % 2 == 0);
      const absl::StatusOr<double> taken = Decode(with);
      if (!taken.ok()) return taken.status();
      seconds[with ? 1 : 0] = *taken;
      if (with) drawn = result_.outputs;
    }
    for (size_t i = 0; i < tokens_.size(); ++i) tokens_[i].push_back(drawn[i].token.token_id);
    if (step > 1) {
      base.push_back(seconds[0]);
      adapted.push_back(seconds[1]);
    }
    if (static_cast<int32_t>(adapted.size()) >= kMinIterations && Now() - begin > session_.options().max_seconds) break;
  }
  if (adapted.empty()) return absl::InvalidArgumentError("--new-tokens is 2; with --adapters it is 3 or more");
  session_.Add(RecordOf(adapted, base));
  return absl::OkStatus();
}

}  // namespace

absl::Status BenchAdapters(Session* session, const AdapterCase& which) {
  const auto counts = ParseNumbers("--adapters", session->options().adapters, 0, engine::kMaxAdapters);
  if (!counts.ok()) return counts.status();
  for (const int64_t count : *counts) {
    absl::Status status = AdapterRun(session, which, static_cast<int32_t>(count)).Run();
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace dunlin::tools::bench

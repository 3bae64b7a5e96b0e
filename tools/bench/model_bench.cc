// SPDX-License-Identifier: Apache-2.0
// Whole models through the runtime that serves them, with step plans like the scheduler's: a prompt at a time, then one
// token of every sequence per step, sampled greedily.
#include <algorithm>
#include <memory>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "engine/model/architectures/named_shapes.h"
#include "engine/model/load/load_model.h"
#include "engine/model/model.h"
#include "engine/plan/sequence_view.h"
#include "engine/runtime/model_runtime.h"
#include "tools/bench/adapter_bench.h"
#include "tools/bench/benches.h"
#include "tools/bench/grammar_bench.h"
#include "tools/bench/model_ranks.h"
#include "tools/bench/model_work.h"
#include "tools/bench/proof.h"
#include "tools/bench/random_values.h"
#include "tools/bench/speculation_bench.h"
#include "tools/bench/timed_device.h"

namespace dunlin::tools::bench {
namespace {

using engine::ExecutionProfile;
using engine::ModelConfig;
using engine::Precision;

constexpr int64_t kBatchMax = 1024;
// Of the process beside the planned memory: the binary, its libraries, thread stacks (the 150 MB of the memory goal).
constexpr double kProcessBytes = 150e6;

// The duration of a step, and the time of its operations.
struct Step {
  double seconds = 0.0;
  OpSeconds ops{};
};

// A prompt, what was drawn after it, pages for all of it, and the slot of its state where it has one.
struct BenchSequence {
  std::vector<engine::TokenId> tokens;
  std::vector<engine::PageId> pages;
  int32_t state_slot = 0;
  int32_t num_tokens() const { return static_cast<int32_t>(tokens.size()); }
};

class ModelRun {
 public:
  ModelRun(Session* session, std::string name, const engine::Model* model, TimedDevice* device,
           const ExecutionProfile& profile, int32_t batch)
      : session_(*session),
        name_(std::move(name)),
        model_(*model),
        device_(*device),
        profile_(profile),
        batch_(batch),
        prompt_tokens_(session->options().prompt_tokens),
        new_tokens_(session->options().new_tokens) {}

  absl::Status Run();

 private:
  absl::Status Prepare();
  void ModelPlan(const BenchSequence& sequence, int32_t first_position, int32_t num_tokens);
  // Launches and collects `plan_`, and appends the sampled token of step i to sequences[i].
  absl::StatusOr<Step> RunStep(std::span<BenchSequence> sequences);
  absl::StatusOr<Step> Prefill(BenchSequence* sequence);
  absl::StatusOr<Step> DecodeStep();
  absl::Status PrefillAll();
  absl::Status DecodeAll();
  // The steps whose operations are timed: `steps` where those are synchronous, else one more, with a wait for each.
  absl::StatusOr<std::vector<Step>> TimedSteps(const std::vector<Step>& steps,
                                               absl::FunctionRef<absl::StatusOr<Step>()> once_more);
  Record RecordOf(const char* phase, const std::vector<Step>& steps, const Work& work, double paired_ratio) const;
  void AddShares(const std::vector<Step>& timed, Record* record) const;
  Json Memory() const;

  Session& session_;
  const std::string name_;
  const engine::Model& model_;
  TimedDevice& device_;
  const ExecutionProfile profile_;
  const int32_t batch_;
  const int32_t prompt_tokens_;
  const int32_t new_tokens_;
  std::unique_ptr<engine::ModelRuntime> runtime_;
  std::vector<BenchSequence> sequences_;
  engine::StepPlan plan_;
  engine::StepResult result_;
};

absl::Status ModelRun::Prepare() {
  const ModelConfig& config = model_.config();
  const int32_t pages = PagesOf(config, profile_, prompt_tokens_ + new_tokens_);
  auto runtime =
      engine::ModelRuntime::Create(&model_, OptionsFor(config, profile_, batch_, prompt_tokens_ + new_tokens_));
  if (!runtime.ok()) return runtime.status();
  runtime_ = *std::move(runtime);
  for (int32_t i = 0; i < batch_; ++i) {
    BenchSequence& sequence = sequences_.emplace_back();
    sequence.tokens.reserve(static_cast<size_t>(prompt_tokens_ + new_tokens_));
    sequence.tokens.resize(static_cast<size_t>(prompt_tokens_));
    FillIds(StreamOf(session_.options().seed, static_cast<uint64_t>(i)), config.vocab_size, sequence.tokens);
    sequence.pages.resize(static_cast<size_t>(pages));
    std::iota(sequence.pages.begin(), sequence.pages.end(), i * pages);
    sequence.state_slot = i;
  }
  return absl::OkStatus();
}

void ModelRun::ModelPlan(const BenchSequence& sequence, int32_t first_position, int32_t num_tokens) {
  engine::SamplingParams greedy;
  greedy.temperature = 0.0F;
  engine::AppendSequence(profile_,
                         {.tokens = sequence.tokens,
                          .prompt_len = prompt_tokens_,
                          .pages = sequence.pages,
                          .sampling = greedy,
                          .stopping = {},
                          .state = {.slot = sequence.state_slot}},
                         {.first_position = first_position,
                          .num_tokens = num_tokens,
                          .samples = first_position + num_tokens == sequence.num_tokens()},
                         &plan_);
}

absl::StatusOr<Step> ModelRun::RunStep(std::span<BenchSequence> sequences) {
  const OpSeconds before = device_.seconds();
  const double begin = Now();
  const absl::StatusOr<engine::StepHandle> handle = runtime_->Launch(plan_);
  if (!handle.ok()) return handle.status();
  if (absl::Status status = runtime_->Collect(*handle, &result_); !status.ok()) return status;
  Step taken{.seconds = Now() - begin};
  for (size_t i = 0; i < before.size(); ++i) taken.ops[i] = device_.seconds()[i] - before[i];
  for (size_t i = 0; i < plan_.sequences.size(); ++i) {
    if (!plan_.sequences[i].samples) continue;
    if (!result_.outputs[i].sampled) return absl::DataLossError("logits were not finite");
    sequences[i].tokens.push_back(result_.outputs[i].token.token_id);
  }
  return taken;
}

// The whole prompt, in chunks, as one step: the time to a request's first token.
absl::StatusOr<Step> ModelRun::Prefill(BenchSequence* sequence) {
  Step total;
  for (int32_t first = 0; first < prompt_tokens_; first += kStepTokens) {
    const int32_t count = std::min(kStepTokens, prompt_tokens_ - first);
    plan_.Clear();
    ModelPlan(*sequence, first, count);
    const absl::StatusOr<Step> chunk = RunStep(std::span(sequence, 1));
    if (!chunk.ok()) return chunk.status();
    total.seconds += chunk->seconds;
    for (size_t i = 0; i < total.ops.size(); ++i) total.ops[i] += chunk->ops[i];
  }
  return total;
}

absl::StatusOr<Step> ModelRun::DecodeStep() {
  plan_.Clear();
  for (const BenchSequence& sequence : sequences_) ModelPlan(sequence, sequence.num_tokens() - 1, 1);
  return RunStep(sequences_);
}

absl::StatusOr<std::vector<Step>> ModelRun::TimedSteps(const std::vector<Step>& steps,
                                                       absl::FunctionRef<absl::StatusOr<Step>()> once_more) {
  if (device_.always_timed()) return steps;
  device_.set_timed(true);
  const absl::StatusOr<Step> step = once_more();
  device_.set_timed(false);
  if (!step.ok()) return step.status();
  return std::vector<Step>{*step};
}

Record ModelRun::RecordOf(const char* phase, const std::vector<Step>& steps, const Work& work,
                          double paired_ratio) const {
  std::vector<double> seconds;
  seconds.reserve(steps.size());
  for (const Step& step : steps) seconds.push_back(step.seconds);
  Record record;
  record.op = "model";
  record.case_name = name_;
  record.backend = Name(profile_.attention_backend);
  record.precision = Name(profile_.precision);
  record.shape = {batch_, prompt_tokens_, new_tokens_};
  record.work = work;
  record.timing = TimingOf(seconds);
  record.timing.paired_ratio = paired_ratio;
  record.workspace_bytes = runtime_->memory_plan()[engine::BufferId::kWorkspace];
  record.resident_bytes = model_.weight_bytes(profile_.precision) + runtime_->memory_plan().total();
  record.extra["phase"] = phase;
  record.extra["batch"] = batch_;
  if (model_.num_ranks() > 1) record.extra["tensor"] = model_.num_ranks();
  return record;
}

void ModelRun::AddShares(const std::vector<Step>& timed, Record* record) const {
  double total = 0.0;
  OpSeconds ops{};
  for (const Step& step : timed) {
    total += step.seconds;
    for (size_t i = 0; i < ops.size(); ++i) ops[i] += step.ops[i];
  }
  double known = 0.0;
  Json shares;
  for (size_t i = 0; i < ops.size(); ++i) {
    shares[Name(static_cast<OpKind>(i))] = ops[i] / total;
    known += ops[i];
  }
  shares["sampling_and_host"] = (total - known) / total;
  const double inside = ops[static_cast<size_t>(OpKind::kGemm)] + ops[static_cast<size_t>(OpKind::kAttention)];
  record->extra["outside_gemm_and_attention"] = (total - inside) / total;
  record->extra["shares"] = shares;
  record->extra["shares_waited"] = !device_.always_timed();
}

Json ModelRun::Memory() const {
  const double planned = static_cast<double>(model_.weight_bytes(profile_.precision)) +
                         static_cast<double>(runtime_->memory_plan().total());
  Json memory = {{"weight_bytes", model_.weight_bytes(profile_.precision)},
                 {"kv_pool_bytes", runtime_->memory_plan()[engine::BufferId::kKvPool]},
                 {"planned_bytes", planned}};
  if (model_.device()->ops->kind != kernels::DeviceKind::kCpu)
    return memory;  // device memory is not part of the process
  const auto rss = static_cast<double>(ResidentSetBytes());
  memory["rss_bytes"] = rss;
  memory["rss_over_plan_ratio"] = rss / (planned + kProcessBytes);
  return memory;
}

// Every sequence's prompt, or the only one's repeatedly. The first run is a warm-up unless it is the only one.
absl::Status ModelRun::PrefillAll() {
  const Work work = PromptWork(model_.config(), profile_, prompt_tokens_, kStepTokens);
  RoofPairs pairs(session_.LeastFor(work));
  std::vector<Step> steps;
  const auto prefill = [&](BenchSequence* sequence) -> absl::Status {
    if (steps.size() == 1) {
      if (absl::Status status = pairs.Start(); !status.ok()) return status;
    }
    const absl::StatusOr<Step> step = Prefill(sequence);
    if (!step.ok()) return step.status();
    steps.push_back(*step);
    return steps.size() == 1 ? absl::OkStatus() : pairs.Add(step->seconds);
  };
  for (BenchSequence& sequence : sequences_) {
    if (absl::Status status = prefill(&sequence); !status.ok()) return status;
  }
  const double begin = Now();
  while (batch_ == 1 && steps.size() < kMinIterations + 1 && Now() - begin < session_.options().max_seconds) {
    sequences_[0].tokens.pop_back();
    if (absl::Status status = prefill(&sequences_[0]); !status.ok()) return status;
  }
  if (steps.size() > 1) steps.erase(steps.begin());
  Record record = RecordOf("prefill", steps, work, pairs.Median());
  const auto timed = TimedSteps(steps, [this] {
    sequences_[0].tokens.pop_back();
    return Prefill(&sequences_[0]);
  });
  if (!timed.ok()) return timed.status();
  AddShares(*timed, &record);
  std::vector<engine::TokenId> first_tokens;
  for (const BenchSequence& sequence : sequences_) first_tokens.push_back(sequence.tokens.back());
  record.proof.sha256 = Sha256(std::as_bytes(std::span(first_tokens)));
  record.extra["tokens_per_s"] = prompt_tokens_ / record.timing.median_us * 1e6;
  record.extra["ms_per_prompt"] = record.timing.median_us / 1e3;
  session_.Add(std::move(record));
  return absl::OkStatus();
}

absl::Status ModelRun::DecodeAll() {
  const double context = prompt_tokens_ + new_tokens_ / 2.0;  // of the median step
  const Work work = DecodeWork(model_.config(), profile_, batch_, context);
  RoofPairs pairs(session_.LeastFor(work));
  if (absl::Status status = pairs.Start(); !status.ok()) return status;
  std::vector<Step> steps;
  for (int32_t i = 1; i < new_tokens_; ++i) {
    const absl::StatusOr<Step> step = DecodeStep();
    if (!step.ok()) return step.status();
    steps.push_back(*step);
    if (absl::Status status = pairs.Add(step->seconds); !status.ok()) return status;
  }
  Record record = RecordOf("decode", steps, work, pairs.Median());
  const auto timed = TimedSteps(steps, [this] {
    for (BenchSequence& sequence : sequences_) sequence.tokens.pop_back();
    return DecodeStep();
  });
  if (!timed.ok()) return timed.status();
  AddShares(*timed, &record);
  std::vector<engine::TokenId> drawn;
  for (const BenchSequence& sequence : sequences_) {
    drawn.insert(drawn.end(), sequence.tokens.begin() + prompt_tokens_, sequence.tokens.end());
  }
  record.proof.sha256 = Sha256(std::as_bytes(std::span(drawn)));
  record.extra["tokens_per_s"] = batch_ / record.timing.median_us * 1e6;
  record.extra["ms_per_token"] = record.timing.median_us / 1e3;
  session_.ReleaseRoofMemory();
  record.extra["memory"] = Memory();
  session_.Add(std::move(record));
  return absl::OkStatus();
}

absl::Status ModelRun::Run() {
  absl::Status status = Prepare();
  if (status.ok()) status = PrefillAll();
  if (status.ok()) status = DecodeAll();
  return status;
}

struct ModelPlan {
  std::vector<std::string> shapes;  // empty with --model
  ModelAxes axes;
};

absl::StatusOr<ModelPlan> ModelPlanOf(const BenchOptions& options) {
  absl::StatusOr<ModelAxes> axes =
      ParseModelAxes(options, options.grammar ? std::vector<int64_t>{8} : std::vector<int64_t>{1, 8, 32}, kBatchMax);
  if (!axes.ok()) return axes.status();
  ModelPlan plan{{}, *std::move(axes)};
  if (!options.model.empty()) {
    if (options.case_name.empty()) return plan;
    return absl::InvalidArgumentError("--case and --model are both given; only one is allowed");
  }
  plan.shapes = {options.case_name.empty() ? "gpt2-124m" : options.case_name};
  if (options.case_name.empty() && !options.grammar) plan.shapes.emplace_back("llama-1b");
  std::vector<std::string> known;
  for (const engine::NamedShape& shape : engine::NamedShapes()) known.emplace_back(shape.name);
  for (const std::string& shape : plan.shapes) {
    if (engine::FindNamedShape(shape) == nullptr) return UnknownCase(shape, known);
  }
  return plan;
}

absl::Status RunModel(Session* session, const ModelPlan& plan, const std::string& shape, Precision precision) {
  const BenchOptions& options = session->options();
  const absl::StatusOr<ModelRanks> ranks = ModelRanks::Open(session);
  if (!ranks.ok()) return ranks.status();
  TimedDevice device(ranks->first());  // rank 0's operations are timed
  const engine::ModelSource source{.path = options.model,
                                   .random_shape = shape,
                                   .random_seed = options.seed,
                                   .precisions = {precision},
                                   .num_ranks = options.tensor,
                                   .int8_inputs = options.int8_inputs};
  const auto model = engine::LoadModel(source, ranks->With(device.device()));
  if (!model.ok()) return model.status();
  if (const int32_t context = (*model)->config().max_context; options.prompt_tokens + options.new_tokens > context) {
    return absl::InvalidArgumentError(absl::StrCat("--prompt-tokens and --new-tokens are ", options.prompt_tokens,
                                                   " and ", options.new_tokens, "; the model's limit is ", context,
                                                   " together"));
  }
  const std::string name = shape.empty() ? options.model : shape;
  for (const int64_t batch : plan.axes.batches) {
    for (const std::optional<engine::AttentionBackend> backend : plan.axes.backends) {
      const auto profile = ProfileOf(**model, precision, backend);
      absl::Status status = profile.status();
      const auto streams = static_cast<int32_t>(batch);
      if (status.ok() && options.grammar) {
        status = BenchGrammar(session, {name, model->get(), *profile, streams});
      } else if (status.ok() && !options.adapters.empty()) {
        status = BenchAdapters(session, {name, model->get(), *profile, streams});
      } else if (status.ok() && MaxDraftsOf(options) > 0) {
        status = BenchSpeculation(session, {name, model->get(), *profile, streams});
      } else if (status.ok()) {
        status = ModelRun(session, name, model->get(), &device, *profile, streams).Run();
      }
      status = session->SkipUnsupported(absl::StrCat(name, " ", NameOf(backend), " ", Name(precision)), status);
      if (!status.ok()) return status;
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status BenchModel(Session* session) {
  const absl::StatusOr<ModelPlan> plan = ModelPlanOf(session->options());
  if (!plan.ok()) return plan.status();
  if (absl::Status status = session->Start(); !status.ok()) return status;
  const std::vector<std::string> shapes = plan->shapes.empty() ? std::vector<std::string>{""} : plan->shapes;
  for (const std::string& shape : shapes) {
    for (const Precision precision : plan->axes.precisions) {
      if (absl::Status status = RunModel(session, *plan, shape, precision); !status.ok()) return status;
    }
  }
  return absl::OkStatus();
}

}  // namespace dunlin::tools::bench

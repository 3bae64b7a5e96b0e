// SPDX-License-Identifier: Apache-2.0
// Encoders through the runtime that serves them: one ragged batch of texts without padding, pooled to vectors.
#include <algorithm>
#include <cmath>
#include <memory>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/encoder/encoder_runtime.h"
#include "engine/model/load/load_model.h"
#include "engine/model/model.h"
#include "tools/bench/benches.h"
#include "tools/bench/model_work.h"
#include "tools/bench/proof.h"
#include "tools/bench/random_values.h"

namespace dunlin::tools::bench {
namespace {

using engine::ExecutionProfile;
using engine::Precision;

constexpr int64_t kTextsMax = 1024;
constexpr int32_t kTokensMin = 8;  // of a text; --prompt-tokens is the maximum

struct EncoderCase {
  const char* name;
  const char* config;
};
constexpr EncoderCase kEncoderCases[] = {
    {"bert-base", R"({"model_type": "bert", "num_hidden_layers": 12, "hidden_size": 768, "intermediate_size": 3072,
                      "num_attention_heads": 12, "vocab_size": 30522, "max_position_embeddings": 512})"},
    {"minilm-l6", R"({"model_type": "bert", "num_hidden_layers": 6, "hidden_size": 384, "intermediate_size": 1536,
                      "num_attention_heads": 12, "vocab_size": 30522, "max_position_embeddings": 512})"},
};

// The texts of a batch: lengths uniform in [kTokensMin, longest], random ids.
struct Texts {
  std::vector<std::vector<engine::TokenId>> tokens;
  int32_t num_tokens = 0;
};
Texts MakeTexts(int64_t count, int32_t longest, int32_t vocab_size, uint64_t seed) {
  Texts texts;
  std::vector<int32_t> lengths(static_cast<size_t>(count));
  FillIds(StreamOf(seed, 0), std::max(longest - kTokensMin + 1, 1), lengths);
  for (size_t i = 0; i < lengths.size(); ++i) {
    texts.tokens.emplace_back(static_cast<size_t>(std::min(lengths[i] + kTokensMin, longest)));
    FillIds(StreamOf(seed, 1 + i), vocab_size, texts.tokens.back());
    texts.num_tokens += static_cast<int32_t>(texts.tokens.back().size());
  }
  return texts;
}

Work WorkOf(const engine::ModelConfig& config, const ExecutionProfile& profile, const Texts& texts) {
  Work work{.flops = 0.0, .bytes = 0.0, .peak = PeakOf(profile.precision)};
  for (const auto& text : texts.tokens) {
    const Work one = PrefillWork(config, profile, 0, static_cast<int32_t>(text.size()), 0);
    work.flops += one.flops;
    work.bytes = one.bytes;  // the weights, once for the batch
  }
  return work;
}

absl::Status RunBatch(Session* session, const std::string& name, const engine::Model& model,
                      const ExecutionProfile& profile, int64_t count) {
  const BenchOptions& options = session->options();
  const engine::ModelConfig& config = model.config();
  const int32_t longest = std::min(options.prompt_tokens, config.max_context);
  const Texts texts = MakeTexts(count, longest, config.vocab_size, options.seed);
  engine::EngineOptions engine_options;
  engine_options.max_sequences = static_cast<int32_t>(count);
  engine_options.max_tokens_per_step = texts.num_tokens;
  const auto runtime = engine::ModelEncoderRuntime::Create(&model, engine_options);
  if (!runtime.ok()) return runtime.status();
  // NaN: what the engine does not write shows.
  std::vector<float> vectors(static_cast<size_t>(count) * static_cast<size_t>(config.hidden_dim), std::nanf(""));
  engine::EncodeBatch batch;
  batch.profile = profile;
  batch.num_tokens = texts.num_tokens;
  for (size_t i = 0; i < texts.tokens.size(); ++i) {
    batch.inputs.push_back({.tokens = texts.tokens[i].data(),
                            .num_tokens = static_cast<int32_t>(texts.tokens[i].size()),
                            .vector = vectors.data() + i * static_cast<size_t>(config.hidden_dim),
                            .dimensions = config.hidden_dim,
                            .normalize = true});
  }
  TimingOptions timing_options = session->TimingFor(WorkOf(config, profile, texts));
  timing_options.wait = nullptr;  // Run waits for its vectors
  const auto timing = Measure(timing_options, [&](int64_t) { return (*runtime)->Run(&batch); });
  if (!timing.ok()) return timing.status();
  const bool finite = std::all_of(batch.inputs.begin(), batch.inputs.end(), [](const auto& in) { return in.finite; }) &&
                      std::all_of(vectors.begin(), vectors.end(), [](float value) { return std::isfinite(value); });
  if (!finite) return absl::DataLossError("a vector was not finite");
  Record record;
  record.op = "encoder";
  record.case_name = name;
  record.backend = Name(profile.attention_backend);
  record.precision = Name(profile.precision);
  record.shape = {count, texts.num_tokens};
  record.work = WorkOf(config, profile, texts);
  record.timing = *timing;
  record.workspace_bytes = (*runtime)->memory_plan()[engine::BufferId::kWorkspace];
  record.resident_bytes = model.weight_bytes(profile.precision) + (*runtime)->memory_plan().total();
  record.proof.sha256 = Sha256(std::as_bytes(std::span(vectors)));
  record.extra["batch"] = count;
  record.extra["longest_text"] = longest;
  record.extra["texts_per_s"] = static_cast<double>(count) / timing->median_us * 1e6;
  record.extra["tokens_per_s"] = texts.num_tokens / timing->median_us * 1e6;
  session->Add(std::move(record));
  return absl::OkStatus();
}

struct EncoderPlan {
  std::vector<std::pair<std::string, engine::ModelSource>> models;
  ModelAxes axes;
};

absl::StatusOr<EncoderPlan> EncoderPlanOf(const BenchOptions& options) {
  EncoderPlan plan;
  absl::StatusOr<ModelAxes> axes = ParseModelAxes(options, {1, 32}, kTextsMax);
  if (!axes.ok()) return axes.status();
  plan.axes = *std::move(axes);
  std::vector<std::string> known;
  for (const EncoderCase& row : kEncoderCases) {
    known.emplace_back(row.name);
    const bool wanted = options.case_name.empty() || options.case_name == row.name;
    if (!wanted || !options.model.empty()) continue;
    engine::ModelSource source;
    source.random_shape = row.config;
    plan.models.emplace_back(row.name, source);
  }
  if (!options.model.empty()) {
    if (!options.case_name.empty()) {
      return absl::InvalidArgumentError("--case and --model are both given; only one is allowed");
    }
    engine::ModelSource source;
    source.path = options.model;
    plan.models.emplace_back(options.model, source);
  }
  if (plan.models.empty()) return UnknownCase(options.case_name, known);
  return plan;
}

absl::Status RunModel(Session* session, const EncoderPlan& plan, const std::string& name,
                      const engine::ModelSource& source) {
  const auto model = engine::LoadModel(source, session->device());
  if (!model.ok()) return model.status();
  for (const int64_t batch : plan.axes.batches) {
    for (const std::optional<engine::AttentionBackend> backend : plan.axes.backends) {
      const Precision precision = source.precisions.front();
      const auto profile = ProfileOf(**model, precision, backend);
      absl::Status status = profile.ok() ? RunBatch(session, name, **model, *profile, batch) : profile.status();
      status = session->SkipUnsupported(absl::StrCat(name, " ", NameOf(backend), " ", Name(precision)), status);
      if (!status.ok()) return status;
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status BenchEncoder(Session* session) {
  absl::StatusOr<EncoderPlan> plan = EncoderPlanOf(session->options());
  if (!plan.ok()) return plan.status();
  if (absl::Status status = session->Start(); !status.ok()) return status;
  for (auto& [name, source] : plan->models) {
    source.random_seed = session->options().seed;
    for (const Precision precision : plan->axes.precisions) {
      source.precisions = {precision};
      if (absl::Status status = RunModel(session, *plan, name, source); !status.ok()) return status;
    }
  }
  return absl::OkStatus();
}

}  // namespace dunlin::tools::bench

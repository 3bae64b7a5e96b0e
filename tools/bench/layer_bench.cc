// SPDX-License-Identifier: Apache-2.0
// Layers through the engine's modules, eager and fused, with random weights: Transformer Engine's modules from Linear
// to TransformerLayer, and nanoGPT's attention block.
#include <algorithm>
#include <iostream>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/layers/forward_pass.h"
#include "engine/model/model.h"
#include "engine/plan/sequence_view.h"
#include "engine/runtime/memory_plan.h"
#include "engine/runtime/step_buffers.h"
#include "engine/runtime/step_inputs.h"
#include "tools/bench/attention_reference.h"
#include "tools/bench/benches.h"
#include "tools/bench/layer_reference.h"
#include "tools/bench/layer_scaling.h"
#include "tools/bench/layer_size.h"
#include "tools/bench/model_work.h"
#include "tools/bench/proof.h"
#include "tools/bench/random_values.h"
#include "tools/bench/timed_device.h"

namespace dunlin::tools::bench {
namespace {

using engine::BufferId;
using engine::ExecutionMode;
using engine::ExecutionProfile;
using engine::Fp8Recipe;
using engine::Module;
using engine::Precision;

constexpr int32_t kSampledPositions[] = {0, 5};  // early ones: attention reads all rows up to its own

struct Rung {
  const char* name;
  Module module;
};
constexpr Rung kTeRungs[] = {{"linear", Module::kLinear},
                             {"layer_norm_linear", Module::kLayerNormLinear},
                             {"layer_norm_mlp", Module::kLayerNormMlp},
                             {"transformer_layer", Module::kTransformerLayer}};
constexpr Rung kNanoGptRungs[] = {{"attention_block", Module::kAttentionBlock}};

struct CaseRow {
  const char* name;
  LayerSize published;
  double scale;  // default on a CPU, so that a run takes seconds
  std::span<const Rung> rungs;
  std::span<const Fp8Recipe> recipes;  // of FP8, unless --fp8-recipe says others
};
// Transformer Engine's benchmark scales by DelayedScaling.
constexpr Fp8Recipe kTeRecipes[] = {Fp8Recipe::kPerToken, Fp8Recipe::kDelayed};
constexpr Fp8Recipe kNanoGptRecipes[] = {Fp8Recipe::kPerToken};
const CaseRow kCases[] = {
    {"te", {4, 2048, 4096, 32, 16384, true}, 0.25, kTeRungs, kTeRecipes},
    {"nanogpt", {32, 128, 512, 8, 2048, false}, 1.0, kNanoGptRungs, kNanoGptRecipes},
};

// A config of one layer. nanoGPT's config can omit the biases; its MLP, with another GELU, is not run.
std::string ConfigText(const LayerSize& d) {
  const Json config =
      d.biases ? Json{{"model_type", "gpt2"}, {"n_layer", 1},         {"n_embd", d.hidden_dim},
                      {"n_head", d.heads},    {"n_inner", d.ffn_dim}, {"n_positions", d.tokens},
                      {"vocab_size", 64}}
               : Json{{"model_type", "nanogpt"}, {"n_layer", 1},  {"n_embd", d.hidden_dim}, {"n_head", d.heads},
                      {"block_size", d.tokens},  {"bias", false}, {"vocab_size", 64}};
  return config.dump();
}

// One model, one precision, one execution, one backend: its buffers and staged inputs.
class LayerRun {
 public:
  // ops: of the model's device, counted while it runs.
  LayerRun(const CaseRow& row, const LayerSize& size, const engine::Model* model, const LayerReference* reference,
           const TimedDevice* ops, const ExecutionProfile& profile, ExecutionMode execution)
      : row_(row),
        d_(size),
        model_(*model),
        reference_(*reference),
        timed_(*ops),
        profile_(profile),
        execution_(execution),
        ops_(*model->device()->ops),
        context_(model->device()->context) {}

  absl::Status Prepare(uint64_t seed);
  absl::StatusOr<Record> Run(Session* session, const Rung& rung);

 private:
  absl::Status Reset();
  absl::Status Calibrate(const Rung& rung);
  engine::ForwardPass PassWith(const engine::Fp8Scaling* scaling) const {
    return {model_.config(), model_.weights(profile_.precision), profile_, inputs_->pass_inputs(), buffers_->layers(),
            scaling};
  }
  absl::Status PoisonOutput(Module module);
  absl::StatusOr<Proof> Check(const Rung& rung) const;
  Work WorkOf(Module module) const;
  double ProductFlops(Module module) const;
  void AddProducts(const OpSeconds& before, Module module, Record* record) const;
  BufferId OutputOf(Module module) const {
    return module == Module::kLinear || module == Module::kLayerNormLinear ? BufferId::kQkv : BufferId::kHidden;
  }
  int32_t rows() const { return d_.batch * d_.tokens; }

  const CaseRow& row_;
  const LayerSize d_;
  const engine::Model& model_;
  const LayerReference& reference_;
  const TimedDevice& timed_;
  const ExecutionProfile profile_;
  const ExecutionMode execution_;
  const kernels::DeviceOps& ops_;
  kernels::DeviceContext* const context_;
  std::vector<float> hidden_;  // [rows, hidden_dim]
  std::unique_ptr<engine::StepBuffers> buffers_;
  std::unique_ptr<engine::StepInputs> inputs_;
  std::optional<LayerScaling> scaling_;  // of FP8
};

absl::Status LayerRun::Prepare(uint64_t seed) {
  const engine::ModelConfig& config = model_.config();
  const auto layout = engine::KvLayoutOf(config, profile_.precision);
  const int32_t pages = engine::PagesFor(d_.tokens, layout.tokens_per_page);
  engine::EngineOptions options = OptionsWithOnly(profile_.attention_backend);
  options.max_sequences = d_.batch;
  options.max_tokens_per_step = rows();
  options.kv_memory_bytes = static_cast<size_t>(d_.batch) * static_cast<size_t>(pages) * layout.page_bytes;
  options.execution = execution_;
  options.fp8.recipe = profile_.fp8_recipe;
  const auto plan = engine::PlanMemory(config, {profile_.precision}, *model_.device(), options);
  if (!plan.ok()) return plan.status();
  auto buffers = engine::StepBuffers::Allocate(*plan, config.inv_freq, model_.device());
  if (!buffers.ok()) return buffers.status();
  buffers_ = *std::move(buffers);
  inputs_ = std::make_unique<engine::StepInputs>(*plan);
  if (profile_.precision == Precision::kFp8) {
    auto scaling = LayerScaling::Create(profile_.fp8_recipe, config, model_.device(), buffers_.get());
    if (!scaling.ok()) return scaling.status();
    scaling_ = *std::move(scaling);
  }

  engine::StepPlan step;
  const std::vector<engine::TokenId> tokens(static_cast<size_t>(d_.tokens), 0);
  std::vector<engine::PageId> page_ids(static_cast<size_t>(pages));
  for (int32_t i = 0; i < d_.batch; ++i) {
    std::iota(page_ids.begin(), page_ids.end(), i * pages);
    engine::AppendSequence(
        profile_, {.tokens = tokens, .prompt_len = d_.tokens, .pages = page_ids, .sampling = {}, .stopping = {}},
        {.num_tokens = d_.tokens}, &step);
  }
  inputs_->Stage(step, step.sub_batches[0], layout.tokens_per_page);
  hidden_.resize(static_cast<size_t>(rows()) * static_cast<size_t>(d_.hidden_dim));
  FillRows(StreamOf(seed, 0), static_cast<size_t>(d_.hidden_dim), hidden_);
  return StatusOf(inputs_->Upload(buffers_.get()), "upload");
}

absl::Status LayerRun::Reset() {
  if (scaling_.has_value()) {
    if (absl::Status status = scaling_->Reset(); !status.ok()) return status;
  }
  return StatusOf(
      ops_.copy_to_device(context_, buffers_->at(BufferId::kHidden), hidden_.data(), hidden_.size() * sizeof(float)),
      "copy of the input");
}

// The FP8 scales that the rung starts from.
absl::Status LayerRun::Calibrate(const Rung& rung) {
  if (!scaling_.has_value()) return absl::OkStatus();
  if (absl::Status status = Reset(); !status.ok()) return status;
  return scaling_->Calibrate(
      [&](const engine::Fp8Scaling& observer) { return PassWith(&observer).RunModule(rung.module, 0); });
}

// Multiply-adds of the module's matrices for one row.
double Parameters(Module module, double hidden, double ffn) {
  const double qkv = 3.0 * hidden * hidden;
  const double out = hidden * hidden;
  const double mlp = 2.0 * hidden * ffn;
  return module == Module::kLayerNormMlp       ? mlp
         : module == Module::kAttentionBlock   ? qkv + out
         : module == Module::kTransformerLayer ? qkv + out + mlp
                                               : qkv;
}

double LayerRun::ProductFlops(Module module) const {
  return 2.0 * Parameters(module, d_.hidden_dim, model_.config().ffn_dim) * rows();
}

// Of eager execution, whose products do nothing else: how near they come to the peak says what is left to fuse.
void LayerRun::AddProducts(const OpSeconds& before, Module module, Record* record) const {
  if (execution_ != ExecutionMode::kEager || !timed_.always_timed()) return;
  OpSeconds spent = timed_.seconds();
  for (size_t i = 0; i < spent.size(); ++i) spent[i] -= before[i];
  const double all = std::accumulate(spent.begin(), spent.end(), 0.0);
  if (all <= 0.0) return;
  record->products_us = record->timing.median_us * spent[static_cast<size_t>(OpKind::kGemm)] / all;
  record->products_flops = ProductFlops(module);
}

Work LayerRun::WorkOf(Module module) const {
  const double hidden = d_.hidden_dim;
  const double pairs = SeenPairs(d_.tokens, d_.tokens, true) * d_.batch;
  const bool attends = module == Module::kAttentionBlock || module == Module::kTransformerLayer;
  const double parameters = Parameters(module, hidden, model_.config().ffn_dim);
  return {.flops = ProductFlops(module) + (attends ? 4.0 * pairs * hidden : 0.0),
          .bytes = parameters * static_cast<double>(SizeOf(Traits(profile_.precision).weight_dtype)),
          .peak = PeakOf(profile_.precision)};
}

// Rounding an activation to the precision is off by at most half a unit; at most four roundings follow one another.
double RelativeError(Precision precision, int32_t depth) {
  const double chain = static_cast<double>(depth) * 0x1p-24;
  switch (precision) {
    case Precision::kBf16:
      return 4 * 0x1p-9 + chain;
    case Precision::kFp8:
      return 4 * 0x1p-4 + chain;
    default:
      return 4 * 0x1p-11 + chain;  // FP16; FP32 is far below it
  }
}

absl::StatusOr<Proof> LayerRun::Check(const Rung& rung) const {
  const BufferId id = OutputOf(rung.module);
  const auto width = static_cast<size_t>(id == BufferId::kQkv ? model_.config().qkv_features() : d_.hidden_dim);
  std::vector<float> out(static_cast<size_t>(rows()) * width);
  absl::Status status = ReadDevice(model_.device(), out.data(), buffers_->at(id), out.size() * sizeof(float));
  if (!status.ok()) return status;
  const size_t sequence_rows = static_cast<size_t>(d_.tokens);
  std::vector<Sample> samples;
  for (const int64_t sequence : SampleIndices(d_.batch, 2)) {
    const size_t first = static_cast<size_t>(sequence) * sequence_rows;
    const auto hidden = std::span(hidden_).subspan(first * static_cast<size_t>(d_.hidden_dim),
                                                   sequence_rows * static_cast<size_t>(d_.hidden_dim));
    for (const int32_t position : kSampledPositions) {
      std::vector<Sample> row = reference_.Row(rung.module, hidden, position);
      for (size_t i = 0; i < row.size(); ++i) {
        row[i].actual = static_cast<double>(out[(first + static_cast<size_t>(position)) * width + i]);
      }
      samples.insert(samples.end(), row.begin(), row.end());
    }
  }
  Proof proof = CheckSamples(Sha256(std::as_bytes(std::span(out))), samples,
                             RelativeError(profile_.precision, model_.config().ffn_dim));
  RequireWritten(out, &proof);
  return proof;
}

// Modules that end in the residual stream start from it: Reset writes their output's memory.
absl::Status LayerRun::PoisonOutput(Module module) {
  if (OutputOf(module) != BufferId::kQkv) return absl::OkStatus();
  const size_t floats = static_cast<size_t>(rows()) * static_cast<size_t>(model_.config().qkv_features());
  return PoisonDevice(model_.device(), buffers_->at(BufferId::kQkv), floats * sizeof(float));
}

absl::StatusOr<Record> LayerRun::Run(Session* session, const Rung& rung) {
  if (absl::Status status = Calibrate(rung); !status.ok()) return status;
  if (absl::Status status = PoisonOutput(rung.module); !status.ok()) return status;
  engine::ForwardPass pass = PassWith(scaling_.has_value() ? scaling_->scaling() : nullptr);
  TimingOptions options = session->TimingFor(WorkOf(rung.module));
  options.least = nullptr;  // a layer is compared with the other execution, not with a roof
  const OpSeconds ops_before = timed_.seconds();
  const auto timing = Measure(
      options,
      [&](int64_t) {
        absl::Status status = pass.RunModule(rung.module, 0);
        return status.ok() && scaling_.has_value() ? scaling_->EndStep() : status;
      },
      [&] { return Reset(); });
  if (!timing.ok()) return timing.status();
  absl::StatusOr<Proof> proof = Check(rung);
  if (!proof.ok()) return proof.status();
  Record record;
  record.op = "layer";
  record.case_name = row_.name;
  record.backend = Name(profile_.attention_backend);
  record.precision = Name(profile_.precision);
  record.shape = {d_.batch, d_.tokens, d_.hidden_dim, d_.heads, model_.config().ffn_dim};
  record.work = WorkOf(rung.module);
  record.timing = *timing;
  AddProducts(ops_before, rung.module, &record);
  record.workspace_bytes = buffers_->bytes(BufferId::kWorkspace);
  record.resident_bytes = model_.weight_bytes(profile_.precision) + buffers_->plan().total();
  record.proof = *std::move(proof);
  record.extra["layer"] = rung.name;
  record.extra["scale"] = static_cast<double>(d_.heads) / row_.published.heads;
  if (scaling_.has_value()) record.extra["fp8_recipe"] = engine::Traits(profile_.fp8_recipe).name;
  record.extra["execution"] = execution_ == ExecutionMode::kEager ? "eager" : "fused";
  return record;
}

absl::Status RunBackend(Session* session, const CaseRow& row, const LayerSize& size, const engine::Model& model,
                        const LayerReference& reference, const TimedDevice& ops, const ExecutionProfile& profile) {
  LayerRun eager(row, size, &model, &reference, &ops, profile, ExecutionMode::kEager);
  LayerRun fused(row, size, &model, &reference, &ops, profile, ExecutionMode::kFused);
  absl::Status status = eager.Prepare(session->options().seed);
  if (status.ok()) status = fused.Prepare(session->options().seed);
  if (!status.ok()) return status;
  for (const Rung& rung : row.rungs) {
    auto before = eager.Run(session, rung);
    if (!before.ok()) return before.status();
    auto after = fused.Run(session, rung);
    if (!after.ok()) return after.status();
    after->extra["saved_against_eager"] = 1.0 - after->timing.median_us / before->timing.median_us;
    session->Add(*std::move(before));
    session->Add(*std::move(after));
  }
  return absl::OkStatus();
}

struct Choices {
  std::vector<Precision> precisions;
  std::vector<engine::AttentionBackend> backends;
  std::vector<Fp8Recipe> recipes;  // empty: the case's own
};

absl::StatusOr<Choices> ChoicesOf(const BenchOptions& options) {
  Choices choices;
  auto precisions =
      ParsePrecisions(options.precision, {Precision::kFp32, Precision::kBf16, Precision::kFp16, Precision::kFp8});
  if (!precisions.ok()) return precisions.status();
  choices.precisions = *std::move(precisions);
  auto backends = ParseBackends(options.backend.empty() ? "flash" : options.backend);
  if (!backends.ok()) return backends.status();
  choices.backends = *std::move(backends);
  auto recipes = ParseFp8Recipes(options.fp8_recipe);
  if (!recipes.ok()) return recipes.status();
  choices.recipes = *std::move(recipes);
  const bool fp8 = std::count(choices.precisions.begin(), choices.precisions.end(), Precision::kFp8) > 0;
  if (!choices.recipes.empty() && !fp8) {
    return absl::InvalidArgumentError(
        absl::StrCat("--fp8-recipe is ", options.fp8_recipe, ", but --precision ", options.precision, " has no fp8"));
  }
  return choices;
}

absl::Status RunPrecision(Session* session, const CaseRow& row, const LayerSize& size, Precision precision,
                          const Choices& choices) {
  engine::ModelSource source;
  source.random_shape = ConfigText(size);
  source.random_seed = session->options().seed;
  source.precisions = {precision};
  TimedDevice device(session->device());
  const auto model = engine::Model::Load(source, device.device());
  if (!model.ok()) return model.status();
  const auto reference = LayerReference::Create(**model, precision);
  if (!reference.ok()) return reference.status();
  std::vector<Fp8Recipe> recipes = {Fp8Recipe::kPerToken};  // of the other precisions, where it means nothing
  if (precision == Precision::kFp8) {
    recipes =
        choices.recipes.empty() ? std::vector<Fp8Recipe>(row.recipes.begin(), row.recipes.end()) : choices.recipes;
  }
  for (const engine::AttentionBackend backend : choices.backends) {
    for (const Fp8Recipe recipe : recipes) {
      auto profile = ProfileOf(**model, precision, backend);
      absl::Status status = profile.status();
      if (status.ok()) {
        profile->fp8_recipe = recipe;
        status = RunBackend(session, row, size, **model, *reference, device, *profile);
      }
      status = session->SkipUnsupported(absl::StrCat(row.name, " ", Name(backend), " ", Name(precision)), status);
      if (!status.ok()) return status;
    }
  }
  return absl::OkStatus();
}

// At the scale asked for or, where memory does not allow that, at the largest that fits, which stderr says with the
// bytes that were needed. What the device has is known only by asking it for it.
absl::Status RunLargest(Session* session, const CaseRow& row, double scale, Precision precision,
                        const Choices& choices) {
  const std::string what = absl::StrCat("layer ", row.name, " ", Name(precision));
  while (true) {
    const auto fitted = LargestThatFits(row.published, scale, precision, [&](double bytes) {
      return CheckMemory(absl::StrFormat("%s at scale %.3g", what, scale), bytes);
    });
    if (!fitted.ok()) return fitted.status();
    const LayerSize& size = fitted->size;
    const double fitting = static_cast<double>(size.heads) / row.published.heads;
    if (!fitted->refusal.ok()) std::cerr << fitted->refusal.message() << "; runs at scale " << fitting << "\n";
    const absl::Status status = RunPrecision(session, row, size, precision, choices);
    if (!absl::IsResourceExhausted(status) || size.heads == 1) return status;
    std::cerr << absl::StrFormat("%s at scale %.3g needs about %.0f bytes: %s\n", what, fitting,
                                 BytesOf(size, precision), std::string(status.message()));
    scale = static_cast<double>(std::max(1, size.heads * 7 / 8)) / row.published.heads;
  }
}

}  // namespace

absl::Status BenchLayer(Session* session) {
  const BenchOptions& options = session->options();
  const auto choices = ChoicesOf(options);
  if (!choices.ok()) return choices.status();
  std::vector<const CaseRow*> rows;
  std::vector<std::string> known;
  for (const CaseRow& row : kCases) {
    known.emplace_back(row.name);
    if (options.case_name.empty() || options.case_name == row.name) rows.push_back(&row);
  }
  if (rows.empty()) return UnknownCase(options.case_name, known);
  if (absl::Status status = session->Start(); !status.ok()) return status;
  for (const CaseRow* row : rows) {
    const bool cpu = session->device()->ops->kind == kernels::DeviceKind::kCpu;
    const double usual = cpu ? row->scale : 1.0;
    const double scale = options.scale > 0.0 ? options.scale : usual;
    for (const Precision precision : choices->precisions) {
      if (absl::Status status = RunLargest(session, *row, scale, precision, *choices); !status.ok()) return status;
    }
  }
  return absl::OkStatus();
}

}  // namespace dunlin::tools::bench

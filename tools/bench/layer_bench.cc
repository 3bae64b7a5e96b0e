// SPDX-License-Identifier: Apache-2.0
// Layers through the engine's modules, eager and fused, with random weights: Transformer Engine's modules from Linear
// to TransformerLayer, and nanoGPT's attention block.
#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/layers/forward_pass.h"
#include "engine/model/model.h"
#include "engine/plan/sequence_view.h"
#include "engine/runtime/memory_plan.h"
#include "engine/runtime/step_buffers.h"
#include "engine/runtime/step_inputs.h"
#include "tools/bench/attention_reference.h"
#include "tools/bench/benches.h"
#include "tools/bench/layer_reference.h"
#include "tools/bench/model_work.h"
#include "tools/bench/proof.h"
#include "tools/bench/random_values.h"
#include "tools/bench/timed_device.h"

namespace dunlin::tools::bench {
namespace {

using engine::BufferId;
using engine::ExecutionMode;
using engine::ExecutionProfile;
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

struct Dimensions {
  int32_t batch;
  int32_t tokens;  // of each sequence
  int32_t hidden_dim;
  int32_t heads;
  int32_t ffn_dim;
  bool biases;
};

struct CaseRow {
  const char* name;
  Dimensions published;
  double scale;  // default on a CPU, so that a run takes seconds
  std::span<const Rung> rungs;
};
const CaseRow kCases[] = {
    {"te", {4, 2048, 4096, 32, 16384, true}, 0.25, kTeRungs},
    {"nanogpt", {32, 128, 512, 8, 2048, false}, 1.0, kNanoGptRungs},
};

// Scales heads, widths and lengths; head_dim stays.
Dimensions Scaled(const Dimensions& published, double scale) {
  Dimensions d = published;
  const int32_t head_dim = published.hidden_dim / published.heads;
  d.heads = std::max(1, static_cast<int32_t>(std::lround(published.heads * scale)));
  d.hidden_dim = d.heads * head_dim;
  d.ffn_dim = d.hidden_dim * (published.ffn_dim / published.hidden_dim);
  d.tokens = std::max(8, static_cast<int32_t>(std::lround(published.tokens * scale)));
  return d;
}

// A config of one layer. nanoGPT's config can omit the biases; its MLP, with another GELU, is not run.
std::string ConfigText(const Dimensions& d) {
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
  LayerRun(const CaseRow& row, const Dimensions& dimensions, const engine::Model* model,
           const LayerReference* reference, const TimedDevice* ops, const ExecutionProfile& profile,
           ExecutionMode execution)
      : row_(row),
        d_(dimensions),
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
  absl::StatusOr<Proof> Check(const Rung& rung) const;
  Work WorkOf(Module module) const;
  double ProductFlops(Module module) const;
  void AddProducts(const OpSeconds& before, Module module, Record* record) const;
  BufferId OutputOf(Module module) const {
    return module == Module::kLinear || module == Module::kLayerNormLinear ? BufferId::kQkv : BufferId::kHidden;
  }
  int32_t rows() const { return d_.batch * d_.tokens; }

  const CaseRow& row_;
  const Dimensions d_;
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
  const auto plan = engine::PlanMemory(config, {profile_.precision}, *model_.device(), options);
  if (!plan.ok()) return plan.status();
  auto buffers = engine::StepBuffers::Allocate(*plan, config.inv_freq, model_.device());
  if (!buffers.ok()) return buffers.status();
  buffers_ = *std::move(buffers);
  inputs_ = std::make_unique<engine::StepInputs>(*plan);

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
  return StatusOf(
      ops_.copy_to_device(context_, buffers_->at(BufferId::kHidden), hidden_.data(), hidden_.size() * sizeof(float)),
      "copy of the input");
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
  return CheckSamples(Sha256(std::as_bytes(std::span(out))), samples,
                      RelativeError(profile_.precision, model_.config().ffn_dim));
}

absl::StatusOr<Record> LayerRun::Run(Session* session, const Rung& rung) {
  engine::ForwardPass pass(model_.config(), model_.weights(profile_.precision), profile_, inputs_->pass_inputs(),
                           buffers_->layers());
  TimingOptions options = session->TimingFor(WorkOf(rung.module));
  options.least = nullptr;  // a layer is compared with the other execution, not with a roof
  const OpSeconds ops_before = timed_.seconds();
  const auto timing = Measure(
      options, [&](int64_t) { return pass.RunModule(rung.module, 0); }, [&] { return Reset(); });
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
  record.extra["execution"] = execution_ == ExecutionMode::kEager ? "eager" : "fused";
  return record;
}

absl::Status RunBackend(Session* session, const CaseRow& row, const Dimensions& dimensions, const engine::Model& model,
                        const LayerReference& reference, const TimedDevice& ops, const ExecutionProfile& profile) {
  LayerRun eager(row, dimensions, &model, &reference, &ops, profile, ExecutionMode::kEager);
  LayerRun fused(row, dimensions, &model, &reference, &ops, profile, ExecutionMode::kFused);
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

absl::Status RunPrecision(Session* session, const CaseRow& row, const Dimensions& dimensions, Precision precision,
                          const std::vector<engine::AttentionBackend>& backends) {
  const BenchOptions& options = session->options();
  engine::ModelSource source;
  source.random_shape = ConfigText(dimensions);
  source.random_seed = options.seed;
  source.precisions = {precision};
  TimedDevice device(session->device());
  const auto model = engine::Model::Load(source, device.device());
  if (!model.ok()) return model.status();
  const auto reference = LayerReference::Create(**model, precision);
  if (!reference.ok()) return reference.status();
  for (const engine::AttentionBackend backend : backends) {
    const auto profile = ProfileOf(**model, precision, backend);
    absl::Status status = profile.status();
    if (status.ok()) status = RunBackend(session, row, dimensions, **model, *reference, device, *profile);
    status = session->SkipUnsupported(absl::StrCat(row.name, " ", Name(backend), " ", Name(precision)), status);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status BenchLayer(Session* session) {
  const BenchOptions& options = session->options();
  const auto precisions =
      ParsePrecisions(options.precision, {Precision::kFp32, Precision::kBf16, Precision::kFp16, Precision::kFp8});
  if (!precisions.ok()) return precisions.status();
  const auto backends = ParseBackends(options.backend.empty() ? "flash" : options.backend);
  if (!backends.ok()) return backends.status();
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
    const Dimensions dimensions = Scaled(row->published, options.scale > 0.0 ? options.scale : usual);
    for (const Precision precision : *precisions) {
      auto status = RunPrecision(session, *row, dimensions, precision, *backends);
      if (!status.ok()) return status;
    }
  }
  return absl::OkStatus();
}

}  // namespace dunlin::tools::bench

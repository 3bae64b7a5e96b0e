// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/layer_run.h"

#include <numeric>
#include <span>
#include <utility>

#include "engine/plan/sequence_view.h"
#include "engine/runtime/memory_plan.h"
#include "tools/bench/attention_reference.h"
#include "tools/bench/model_work.h"
#include "tools/bench/random_values.h"

namespace dunlin::tools::bench {
namespace {

using engine::BufferId;
using engine::ExecutionMode;
using engine::Module;
using engine::Precision;

constexpr int32_t kSampledPositions[] = {0, 5};  // early ones: attention reads all rows up to its own

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

// Rounding an activation to the precision is off by at most half a unit; at most four roundings follow one another.
double RelativeError(Precision precision, int32_t depth) {
  const double chain = static_cast<double>(depth) * 0x1p-24;
  switch (kernels::ComputeOf(precision)) {
    case Precision::kBf16:
      return 4 * 0x1p-9 + chain;
    case Precision::kFp8:
      return 4 * 0x1p-4 + chain;
    default:
      return 4 * 0x1p-11 + chain;  // FP16; FP32 is far below it
  }
}

}  // namespace

absl::Status LayerRun::Prepare(uint64_t seed) {
  const engine::ModelConfig& config = model_.config();
  const auto layout = engine::KvLayoutOf(config, profile_.precision);
  const int32_t pages = engine::PagesFor(d_.tokens, layout.tokens_per_page) * engine::KvGroupsOf(config).count();
  engine::EngineOptions options = OptionsWithOnly(profile_.attention_backend);
  options.max_sequences = d_.batch;
  options.max_tokens_per_step = rows();
  options.kv_memory_bytes = static_cast<size_t>(d_.batch) * static_cast<size_t>(pages) * layout.page_bytes;
  options.execution = execution_;
  options.fp8.recipe = profile_.fp8_recipe;
  const auto plan = engine::PlanMemory(config, {profile_.precision}, *model_.device(), options);
  if (!plan.ok()) return plan.status();
  auto buffers = engine::StepBuffers::Allocate(*plan, config.position_constants(), model_.device());
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
absl::Status LayerRun::Calibrate(const LayerRung& rung) {
  if (!scaling_.has_value()) return absl::OkStatus();
  if (absl::Status status = Reset(); !status.ok()) return status;
  return scaling_->Calibrate(
      [&](const engine::Fp8Scaling& observer) { return PassWith(&observer).RunModule(rung.module, 0); });
}

double LayerRun::ProductFlops(Module module) const {
  return 2.0 * Parameters(module, d_.hidden_dim, model_.config().mlp.ffn_dim) * rows();
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
  const double parameters = Parameters(module, hidden, model_.config().mlp.ffn_dim);
  return {.flops = ProductFlops(module) + (attends ? 4.0 * pairs * hidden : 0.0),
          .bytes = parameters * BytesPerElement(Traits(profile_.precision).format),
          .peak = PeakOf(profile_.precision)};
}

absl::StatusOr<Proof> LayerRun::Check(const LayerRung& rung) const {
  const BufferId id = OutputOf(rung.module);
  const auto width =
      static_cast<size_t>(id == BufferId::kQkv ? model_.config().attention.qkv_features() : d_.hidden_dim);
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
                             RelativeError(profile_.precision, model_.config().mlp.ffn_dim));
  RequireWritten(out, &proof);
  return proof;
}

// Modules that end in the residual stream start from it: Reset writes their output's memory.
absl::Status LayerRun::PoisonOutput(Module module) {
  if (OutputOf(module) != BufferId::kQkv) return absl::OkStatus();
  const size_t floats = static_cast<size_t>(rows()) * static_cast<size_t>(model_.config().attention.qkv_features());
  return PoisonDevice(model_.device(), buffers_->at(BufferId::kQkv), floats * sizeof(float));
}

absl::StatusOr<Record> LayerRun::Run(Session* session, const LayerRung& rung) {
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
  record.shape = {d_.batch, d_.tokens, d_.hidden_dim, d_.heads, model_.config().mlp.ffn_dim};
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

}  // namespace dunlin::tools::bench

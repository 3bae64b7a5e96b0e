// SPDX-License-Identifier: Apache-2.0
// Layers through the engine's modules, eager and fused, with random weights: Transformer Engine's modules from Linear
// to TransformerLayer, and nanoGPT's attention block.
#include <algorithm>
#include <iostream>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/model/load/load_model.h"
#include "engine/model/model.h"
#include "tools/bench/benches.h"
#include "tools/bench/layer_reference.h"
#include "tools/bench/layer_run.h"
#include "tools/bench/layer_size.h"
#include "tools/bench/model_work.h"
#include "tools/bench/timed_device.h"

namespace dunlin::tools::bench {
namespace {

using engine::ExecutionMode;
using engine::ExecutionProfile;
using engine::Fp8Recipe;
using engine::Module;
using engine::Precision;

constexpr LayerRung kTeRungs[] = {{"linear", Module::kLinear},
                                  {"layer_norm_linear", Module::kLayerNormLinear},
                                  {"layer_norm_mlp", Module::kLayerNormMlp},
                                  {"transformer_layer", Module::kTransformerLayer}};
constexpr LayerRung kNanoGptRungs[] = {{"attention_block", Module::kAttentionBlock}};

// Transformer Engine's benchmark scales by DelayedScaling.
constexpr Fp8Recipe kTeRecipes[] = {Fp8Recipe::kPerToken, Fp8Recipe::kDelayed};
constexpr Fp8Recipe kNanoGptRecipes[] = {Fp8Recipe::kPerToken};
const LayerCase kLayerCases[] = {
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

absl::Status RunBackend(Session* session, const LayerCase& row, const LayerSize& size, const engine::Model& model,
                        const LayerReference& reference, const TimedDevice& ops, const ExecutionProfile& profile) {
  LayerRun eager(row, size, &model, &reference, &ops, profile, ExecutionMode::kEager);
  LayerRun fused(row, size, &model, &reference, &ops, profile, ExecutionMode::kFused);
  absl::Status status = eager.Prepare(session->options().seed);
  if (status.ok()) status = fused.Prepare(session->options().seed);
  if (!status.ok()) return status;
  for (const LayerRung& rung : row.rungs) {
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

absl::Status RunPrecision(Session* session, const LayerCase& row, const LayerSize& size, Precision precision,
                          const Choices& choices) {
  engine::ModelSource source;
  source.random_shape = ConfigText(size);
  source.random_seed = session->options().seed;
  source.precisions = {precision};
  TimedDevice device(session->device());
  const auto model = engine::LoadModel(source, device.device());
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
absl::Status RunLargest(Session* session, const LayerCase& row, double scale, Precision precision,
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
    absl::Status status = RunPrecision(session, row, size, precision, choices);
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
  std::vector<const LayerCase*> rows;
  std::vector<std::string> known;
  for (const LayerCase& row : kLayerCases) {
    known.emplace_back(row.name);
    if (options.case_name.empty() || options.case_name == row.name) rows.push_back(&row);
  }
  if (rows.empty()) return UnknownCase(options.case_name, known);
  if (absl::Status status = session->Start(); !status.ok()) return status;
  for (const LayerCase* row : rows) {
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

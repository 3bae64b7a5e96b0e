// SPDX-License-Identifier: Apache-2.0
// Bamba: Llama with Mamba2 in most layers, and attention that rotates half a head in some. Falcon-H1: both in every
// layer, of the same normed rows, with factors of what each product gives. Source: transformers 5.24, models/bamba and
// models/falcon_h1.
#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/model/architectures/config_fields.h"
#include "engine/model/architectures/expert_fields.h"
#include "engine/model/architectures/llama_family.h"
#include "engine/model/architectures/mamba_fields.h"
#include "engine/model/spec/model_limits.h"

namespace dunlin::engine {
namespace {

constexpr double kMinFactor = 1e-6;
constexpr double kMaxFactorOfH1 = 1e6;
constexpr int64_t kDefaultFfn = 14336;

// Layers in attn_layer_indices attend; those of layer_types or layers_block_type where the config has a list.
std::string ParseAttentionLayers(JsonFields& fields, int32_t num_layers) {
  std::string letters = ParseLayerLetters(fields, "M*");
  if (!letters.empty()) return letters;
  letters.assign(static_cast<size_t>(num_layers), 'M');
  for (const int64_t layer : fields.IntListOr("attn_layer_indices", 0, num_layers - 1, kMaxLayers)) {
    letters[static_cast<size_t>(layer)] = '*';
  }
  return letters;
}

void ParseBamba(JsonFields& fields, ModelConfig* config) {
  ParseLlamaFamily(fields,
                   {.max_context = 262144,
                    .ffn_dim = kDefaultFfn,
                    .norm_epsilon = 1e-5,
                    .rotary = {.default_partial_factor = 0.5, .partial = true}},
                   config);
  RefuseOtherThan(fields, "hidden_act", "silu");  // of the convolutions, too
  config->attention.qkv_bias = config->attention.out_bias = fields.BoolOr("attention_bias", false);
  config->mlp.bias = fields.BoolOr("mlp_bias", false);
  const MambaFields names;
  ParseMamba(fields, names, MambaHeadDim(fields, names, *config), config);
  ParseStepLimits(fields, &config->mamba);
  if (fields.status().ok()) SetMixers(fields, ParseAttentionLayers(fields, config->num_layers), config);
}

float Factor(JsonFields& fields, const char* name) {
  return static_cast<float>(fields.NumberOr(name, kMinFactor, kMaxFactorOfH1, 1.0));
}

// `count` factors, each 1 where the config has none.
std::vector<float> Factors(JsonFields& fields, const char* name, size_t count) {
  const std::vector<double> values = fields.NumberListOr(name, kMinFactor, kMaxFactorOfH1, count);
  if (!values.empty() && values.size() != count) {
    fields.Fail(absl::StrCat(name, " has ", values.size(), " numbers; must have ", count));
  }
  if (values.size() != count) return std::vector<float>(count, 1.0F);
  return {values.begin(), values.end()};
}

void ParseFactors(JsonFields& fields, ModelConfig* config) {
  ProductFactors& factors = config->factors;
  config->embedding.scale = Factor(fields, "embedding_multiplier");
  config->head.scale = Factor(fields, "lm_head_multiplier");
  factors.query = factors.value = Factor(fields, "attention_in_multiplier");
  factors.key = factors.query * Factor(fields, "key_multiplier");
  factors.attention_out = Factor(fields, "attention_out_multiplier");
  const std::vector<float> blocks = Factors(fields, "ssm_multipliers", factors.mamba_in.size());
  const float input = Factor(fields, "ssm_in_multiplier");
  std::transform(blocks.begin(), blocks.end(), factors.mamba_in.begin(),
                 [input](float block) { return input * block; });
  factors.mamba_out = Factor(fields, "ssm_out_multiplier");
  const std::vector<float> of_mlp = Factors(fields, "mlp_multipliers", 2);
  factors.mlp_gate = of_mlp[0];
  factors.mlp_down = of_mlp[1];
}

constexpr MambaFields kFalconH1Mamba = {.width = "mamba_d_ssm", .default_width = 1024};

void ParseFalconH1(JsonFields& fields, ModelConfig* config) {
  ParseLlamaFamily(fields, {.max_context = 8192, .ffn_dim = kDefaultFfn, .norm_epsilon = 1e-5}, config);
  RefuseOtherThan(fields, "hidden_act", "silu");
  RefuseUnsupported(fields, {"attention_bias", "mlp_bias", "mamba_proj_bias", "projectors_bias"});
  ParseFactors(fields, config);
  ParseMamba(fields, kFalconH1Mamba, MambaHeadDim(fields, kFalconH1Mamba, *config), config);
  ParseStepLimits(fields, &config->mamba);
  const bool before = fields.BoolOr("mamba_norm_before_gate", true);
  config->mamba.norm = !fields.BoolOr("mamba_rms_norm", false) ? MambaNorm::kNone
                       : before                                ? MambaNorm::kBeforeGate
                                                               : MambaNorm::kAfterGate;
  config->mixers.assign(static_cast<size_t>(config->num_layers), MixerKind::kParallel);
}

using enum WeightSlot;
using enum FusedPart;

constexpr WeightName kBambaNames[] = {
    {kEmbedding, kAll, "embed_tokens"},
    {kAttentionNorm, kAll, "layers.#.input_layernorm"},
    {kQkv, kQuery, "layers.#.self_attn.q_proj"},
    {kQkv, kKey, "layers.#.self_attn.k_proj"},
    {kQkv, kValue, "layers.#.self_attn.v_proj"},
    {kAttentionOut, kAll, "layers.#.self_attn.o_proj"},
    {kMlpNorm, kAll, "layers.#.pre_ff_layernorm"},
    {kMlpUp, kGate, "layers.#.feed_forward.gate_proj"},
    {kMlpUp, kUp, "layers.#.feed_forward.up_proj"},
    {kMlpDown, kAll, "layers.#.feed_forward.down_proj"},
    {kFinalNorm, kAll, "final_layernorm"},
    {kHead, kAll, "lm_head", false},
};
// `in_proj`: the part that the input projection's tensor is.
constexpr auto NamesWithMamba(FusedPart in_proj) {
  std::array<WeightName, std::size(kBambaNames) + std::size(kMambaWeights)> names{};
  auto* end = std::copy(std::begin(kBambaNames), std::end(kBambaNames), names.begin());
  std::copy(std::begin(kMambaWeights), std::end(kMambaWeights), end);
  for (WeightName& name : names) {
    if (name.slot == kMambaIn) name.part = in_proj;
  }
  return names;
}
constexpr auto kBambaWeights = NamesWithMamba(kAll);
constexpr auto kFalconH1Weights = NamesWithMamba(kMambaBlocks);

// The converter has multiplied all factors into the weights; z gates before the norm, where files have one.
void WriteGgufFalconH1(GgufConfigWriter* config) {
  const int64_t head_dim = WriteGgufMamba(config, kFalconH1Mamba);
  (*config)["mamba_d_head"] = head_dim;
  (*config)["mamba_d_ssm"] = head_dim * config->Required("ssm.time_step_rank", 1, kMaxHeads);
  (*config)["mamba_rms_norm"] = config->HasTensor("blk.0.ssm_norm.weight");
  (*config)["mamba_norm_before_gate"] = false;
}

constexpr GgufForm kFalconH1Gguf[] = {{.name = "falcon-h1",
                                       .weights = gguf_names::kParallelMamba,
                                       .write_fields = &WriteGgufFalconH1,
                                       .fixed_biases = true}};
constexpr const char* kBambaTypes[] = {"bamba"};
constexpr const char* kFalconH1Types[] = {"falcon_h1"};

}  // namespace

extern const Architecture kBamba = {.name = "bamba",
                                    .model_types = kBambaTypes,
                                    .parse_config = &ParseBamba,
                                    .names = {kLlamaPrefixes, kBambaWeights, kLlamaBuffers}};
extern const Architecture kFalconH1 = {.name = "falcon_h1",
                                       .model_types = kFalconH1Types,
                                       .parse_config = &ParseFalconH1,
                                       .names = {kLlamaPrefixes, kFalconH1Weights, kLlamaBuffers},
                                       .gguf = kFalconH1Gguf};

}  // namespace dunlin::engine

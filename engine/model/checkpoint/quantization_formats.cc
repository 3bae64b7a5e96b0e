// SPDX-License-Identifier: Apache-2.0
#include "engine/model/checkpoint/quantization_formats.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "kernels/api/gemm.h"

namespace dunlin::engine {
namespace {

using nlohmann::json;

constexpr size_t kMaxIgnored = 1 << 16;
constexpr int64_t kMaxBlockRows = 1 << 20;
constexpr int64_t kMaxGroupSize = 1 << 24;

constexpr const char* kScale[] = {"weight_scale"};
constexpr const char* kInput[] = {"input_scale"};
constexpr const char* kBlockScale[] = {"weight_scale_inv", "weight_scale", "scale"};  // DeepSeek V3, MiniMax, V4
constexpr const char* kTensorScale[] = {"weight_scale", "weight_scale_inv"};
constexpr const char* kTensorInput[] = {"input_scale", "activation_scale"};

constexpr QuantizationFormat kFormats[] = {
    {"compressed-tensors", "compressed-tensors", false, kScale, kInput, ParseCompressedTensors},
    {"ModelOpt", "modelopt", false, kScale, kInput, ParseModelOpt},
    {"ModelOpt", "modelopt_fp4", false, kScale, kInput, ParseModelOpt},
    {"fbgemm_fp8", "fbgemm_fp8", false, kScale, {}, ParseFbgemm},
    {"fp8 in blocks", "fp8", true, kBlockScale, {}, ParseFp8},
    {"fp8 per tensor", "fp8", false, kTensorScale, kTensorInput, ParseFp8},
    {"GPTQ", "gptq", false, {}, {}, ParseGptq},
    {"AWQ", "awq", false, {}, {}, ParseAwq},
    {"MXFP4", "mxfp4", false, {}, {}, ParseMxfp4},
    {"bitsandbytes", "bitsandbytes", false, {}, {}, ParseBitsAndBytes},
    {"torchao", "torchao", false, {}, {}, ParseTorchao},
};

// One of `known`, or an error.
std::string Word(JsonFields& fields, const char* name, const char* fallback, std::initializer_list<const char*> known) {
  std::string text = fields.TextOr(name, fallback);
  for (const char* value : known) {
    if (text == value) return text;
  }
  fields.Fail(absl::StrCat(name, " is '", text.substr(0, 32), "'; known: ", absl::StrJoin(known, ", ")));
  return text;
}

// Names and suffixes. Patterns ("re:...", globs) are dropped: the tensors' dtypes carry the same information.
void ReadIgnored(JsonFields& fields, const char* name, Quantization* quantization) {
  for (std::string& entry : fields.TextListOr(name, kMaxIgnored)) {
    const bool pattern = entry.empty() || entry.starts_with("re:") || entry.find('*') != std::string::npos;
    if (!pattern) quantization->ignored.push_back(std::move(entry));
  }
}

void SetBlocks(JsonFields& fields, const char* name, Quantization* quantization) {
  const std::vector<int64_t> block = fields.IntListOr(name, 1, kMaxBlockRows, 2);
  if (!fields.status().ok()) return;
  if (block.size() != 2 || block[1] != kernels::kScaleBlock) {
    fields.Fail(
        absl::StrCat(name, " is [", absl::StrJoin(block, ", "), "]; must be [rows, ", kernels::kScaleBlock, "]"));
    return;
  }
  quantization->weights = WeightScaling::kBlock;
  quantization->block_rows = block[0];
}

// 4 or 8; 0 after an error.
int32_t ReadBits(JsonFields& fields, const char* name) {
  const int64_t bits = fields.Int(name, 1, 32);
  if (!fields.status().ok() || bits == 4 || bits == 8) return static_cast<int32_t>(bits);
  fields.Fail(absl::StrCat(name, " is ", bits, "; codes of 4 and 8 bits are read"));
  return 0;
}

// IntegerQuantization::group_size.
int64_t ReadGroupSize(JsonFields& fields) {
  const int64_t size = fields.IntOr("group_size", -1, kMaxGroupSize, 0);
  if (size == 0 && fields.Has("group_size")) fields.Fail("group_size is 0; must be -1 or a number of columns");
  return size;
}

void WarnOfInputs(JsonFields& group, Quantization* quantization) {
  if (!group.Has("input_activations")) return;
  quantization->warnings.push_back(
      absl::StrCat(group.where(), ": input_activations is set; inputs are not quantised here"));
}

// NVFP4, MXFP4 and MXFP8: floats in groups of 16 or 32 columns.
bool IsMicroscaled(JsonFields& weights) {
  const int64_t group = weights.IntOr("group_size", -1, kMaxGroupSize, 0);
  return weights.TextOr("type", "int") == "float" && (group == 16 || group == 32);
}
Quantization ReadMicroscaledGroup(JsonFields& group, JsonFields& weights) {
  Quantization quantization;
  quantization.microscaled = true;
  const bool nvfp4 = weights.IntOr("group_size", 16, 32, 16) == 16;
  const int32_t bits = ReadBits(weights, "num_bits");
  if (nvfp4 && bits == 8) weights.Fail("group_size is 16 with num_bits 8; MXFP8 has groups of 32");
  Word(weights, "strategy", "group", {nvfp4 ? "tensor_group" : "group"});
  if (!weights.BoolOr("symmetric", true)) weights.Fail("symmetric is false; such floats have no zero point");
  group.Adopt(weights.status());
  WarnOfInputs(group, &quantization);
  return quantization;
}

// Integers of compressed-tensors.
Quantization ReadIntegerGroup(JsonFields& group, JsonFields& weights) {
  Quantization quantization;
  quantization.integer = {IntegerLayout::kPacked, ReadBits(weights, "num_bits")};
  const bool by_row = Word(weights, "strategy", "group", {"group", "channel"}) == "channel";
  quantization.integer.group_size = by_row ? -1 : ReadGroupSize(weights);
  if (weights.BoolOr("dynamic", false)) weights.Fail("dynamic is true, which weights cannot be");
  group.Adopt(weights.status());
  WarnOfInputs(group, &quantization);
  return quantization;
}

// Checks of compressed-tensors that weights and activations share.
void CheckFp8(JsonFields& args) {
  Word(args, "type", "int", {"float"});
  args.Int("num_bits", 8, 8);
  if (!args.BoolOr("symmetric", true)) args.Fail("symmetric is false; FP8 has no zero point");
}

void ReadWeightArgs(JsonFields& args, Quantization* quantization) {
  CheckFp8(args);
  const std::string strategy = Word(args, "strategy", "tensor", {"tensor", "channel", "block"});
  if (!args.status().ok()) return;
  quantization->weights = strategy == "channel" ? WeightScaling::kChannel : WeightScaling::kTensor;
  if (strategy == "block") SetBlocks(args, "block_structure", quantization);
}

void ReadInputArgs(JsonFields& args, Quantization* quantization) {
  CheckFp8(args);
  const bool dynamic = args.BoolOr("dynamic", false);
  const bool blocks = quantization->weights == WeightScaling::kBlock;
  if (!dynamic) {
    Word(args, "strategy", "tensor", {"tensor"});
    if (blocks) args.Fail("dynamic is false; block-scaled weights need dynamic inputs");
    quantization->static_inputs = true;
    return;
  }
  const std::string strategy = Word(args, "strategy", "token", {"tensor", "token", "group"});
  if (strategy == "group") args.Int("group_size", kernels::kScaleBlock, kernels::kScaleBlock);
  if ((strategy == "group") != blocks) {
    quantization->warnings.push_back(absl::StrCat(args.where(), ": strategy is '", strategy, "'; served ",
                                                  blocks ? "per token and 128 channels" : "per token"));
  } else if (strategy == "tensor") {
    quantization->warnings.push_back(
        absl::StrCat(args.where(), ": strategy is 'tensor', which depends on other requests; served per token"));
  }
}

Quantization ReadGroup(JsonFields& group) {
  Quantization quantization;
  const json* weights = group.Object("weights");
  if (weights == nullptr) group.Fail("weights is missing");
  if (group.Has("output_activations")) group.Fail("output_activations is set, which is not supported");
  if (!group.status().ok()) return quantization;
  JsonFields weight_args(*weights, absl::StrCat(group.where(), ".weights"));
  if (weight_args.TextOr("type", "int") == "int") return ReadIntegerGroup(group, weight_args);
  if (IsMicroscaled(weight_args)) return ReadMicroscaledGroup(group, weight_args);
  ReadWeightArgs(weight_args, &quantization);
  group.Adopt(weight_args.status());
  const json* inputs = group.Object("input_activations");
  if (inputs == nullptr) {
    quantization.warnings.push_back(
        absl::StrCat(group.where(), ": input_activations is not set; inputs are quantised per token all the same"));
    return quantization;
  }
  JsonFields input_args(*inputs, absl::StrCat(group.where(), ".input_activations"));
  ReadInputArgs(input_args, &quantization);
  group.Adopt(input_args.status());
  return quantization;
}

bool IsFp8(const Quantization& group) {
  return !group.microscaled && group.integer.layout == IntegerLayout::kNone;
}

// Adds what another group says of its matrices. False: both are of FP8, scaled in different ways.
bool Merge(const Quantization& group, bool has_fp8, Quantization* all) {
  all->warnings.insert(all->warnings.end(), group.warnings.begin(), group.warnings.end());
  if (group.microscaled) {
    all->microscaled = true;
  } else if (group.integer.layout != IntegerLayout::kNone) {
    // Where the groups differ, the tensors say which one they are of.
    const bool first = all->integer.layout == IntegerLayout::kNone;
    const IntegerQuantization before = first ? group.integer : all->integer;
    all->integer = group.integer;
    if (before.bits != group.integer.bits) all->integer.bits = 0;
    if (before.group_size != group.integer.group_size) all->integer.group_size = 0;
  } else if (has_fp8) {
    return all->weights == group.weights && all->block_rows == group.block_rows &&
           all->static_inputs == group.static_inputs;
  } else {
    all->weights = group.weights;
    all->block_rows = group.block_rows;
    all->static_inputs = group.static_inputs;
  }
  return true;
}

}  // namespace

std::span<const QuantizationFormat> QuantizationFormats() {
  return kFormats;
}

void ParseCompressedTensors(JsonFields& fields, Quantization* quantization) {
  Word(fields, "format", "float-quantized",
       {"float-quantized", "naive-quantized", "pack-quantized", "int-quantized", "mixed-precision",
        "nvfp4-pack-quantized", "mxfp4-pack-quantized", "mxfp8-quantized"});
  for (const char* name : {"sparsity_config", "transform_config"}) {
    const json* object = fields.Object(name);
    const bool plain = object == nullptr || object->empty() || object->value("format", "") == "dense";
    if (!plain) fields.Fail(absl::StrCat(name, " is set, which is not supported"));
  }
  const json* groups = fields.Object("config_groups");
  if (groups == nullptr || groups->empty()) return fields.Fail("config_groups is missing");
  if (!fields.status().ok()) return;
  bool has_fp8 = false;
  for (const auto& [name, value] : groups->items()) {
    const std::string where = absl::StrCat(fields.where(), ".config_groups.", name.substr(0, 32));
    if (!value.is_object()) return fields.Adopt(absl::InvalidArgumentError(absl::StrCat(where, " must be an object")));
    JsonFields group(value, where);
    const Quantization parsed = ReadGroup(group);
    if (!group.status().ok()) return fields.Adopt(group.status());
    if (!Merge(parsed, has_fp8, quantization)) {
      return fields.Fail("config_groups has groups of different strategies; all of FP8 must be scaled in one way");
    }
    has_fp8 = has_fp8 || IsFp8(parsed);
  }
  ReadIgnored(fields, "ignore", quantization);
}

void ParseModelOpt(JsonFields& fields, Quantization* quantization) {
  if (const json* nested = fields.Object("quantization")) {
    JsonFields inner(*nested, absl::StrCat(fields.where(), ": quantization"));
    ParseModelOpt(inner, quantization);
    return fields.Adopt(inner.status());
  }
  const std::string algorithm =
      Word(fields, "quant_algo", "",
           {"FP8", "FP8_PER_CHANNEL_PER_TOKEN", "NVFP4", "W4A16_NVFP4", "MXFP8", "MIXED_PRECISION"});
  // FP8 matrices of a mixed checkpoint are those of "FP8".
  const bool per_tensor = algorithm == "FP8" || algorithm == "MIXED_PRECISION";
  quantization->weights = per_tensor ? WeightScaling::kTensor : WeightScaling::kChannel;
  quantization->static_inputs = per_tensor;
  quantization->microscaled = algorithm != "FP8" && algorithm != "FP8_PER_CHANNEL_PER_TOKEN";
  if (quantization->microscaled && algorithm != "W4A16_NVFP4") {
    quantization->warnings.push_back(absl::StrCat(fields.where(), ": quant_algo is '", algorithm,
                                                  "', which has quantised inputs of its matrices in groups of 16 or "
                                                  "32; inputs are not quantised so here"));
  }
  for (const char* name : {"exclude_modules", "ignore"}) ReadIgnored(fields, name, quantization);
}

void ParseFbgemm(JsonFields& fields, Quantization* quantization) {
  quantization->weights = WeightScaling::kChannel;
  quantization->input_amax_limit = static_cast<float>(fields.NumberOr("activation_scale_ub", 1e-6, 3e38, 1200.0));
  ReadIgnored(fields, "modules_to_not_convert", quantization);
}

void ParseGptq(JsonFields& fields, Quantization* quantization) {
  quantization->integer = {IntegerLayout::kGptq, ReadBits(fields, "bits"), 1};
  const std::string format = Word(fields, "checkpoint_format", "gptq", {"gptq", "gptq_v2"});
  if (format == "gptq_v2") quantization->integer.zero_offset = 0;
  Word(fields, "pack_dtype", "int32", {"int32"});
  // GPTQModel's "dynamic" gives modules sizes of their own.
  if (!fields.Has("dynamic")) quantization->integer.group_size = ReadGroupSize(fields);
}

void ParseAwq(JsonFields& fields, Quantization* quantization) {
  quantization->integer = {IntegerLayout::kAwq, ReadBits(fields, "bits")};
  if (fields.status().ok() && quantization->integer.bits != 4) fields.Fail("bits is 8; AWQ is read with 4");
  Word(fields, "version", "gemm", {"gemm", "GEMM"});
  quantization->integer.group_size = ReadGroupSize(fields);
}

void ParseBitsAndBytes(JsonFields& fields, Quantization* quantization) {
  const bool four = fields.BoolOr("load_in_4bit", false);
  if (!four && !fields.BoolOr("load_in_8bit", false)) return fields.Fail("load_in_4bit and load_in_8bit are false");
  quantization->integer.layout = four ? IntegerLayout::kBits4Map : IntegerLayout::kInt8Rows;
  if (four) Word(fields, "bnb_4bit_quant_type", "fp4", {"fp4", "nf4"});
  Word(fields, "bnb_4bit_quant_storage", "uint8", {"uint8"});
}

void ParseTorchao(JsonFields& fields, Quantization* quantization) {
  quantization->integer = {IntegerLayout::kTorchao, 8};
  const json* types = fields.Object("quant_type");
  if (types == nullptr || !types->contains("default") || !(*types)["default"].is_object()) {
    return fields.Fail("quant_type.default is missing");
  }
  JsonFields type((*types)["default"], absl::StrCat(fields.where(), ".quant_type.default"));
  Word(type, "_type", "", {"Int8WeightOnlyConfig"});
  type.Int("_version", 2, 2);  // the first one's tensors are of a class that only torchao's own code can take apart
  fields.Adopt(type.status());
}

// Which tensors are MXFP4 is told by their names (InterleavedExperts).
void ParseMxfp4(JsonFields& fields, Quantization* quantization) {
  ReadIgnored(fields, "modules_to_not_convert", quantization);
}

void ParseFp8(JsonFields& fields, Quantization* quantization) {
  Word(fields, "fmt", "e4m3", {"e4m3", "float8_e4m3fn"});
  quantization->static_inputs = Word(fields, "activation_scheme", "dynamic", {"dynamic", "static"}) == "static";
  if (fields.Has("weight_block_size")) {
    SetBlocks(fields, "weight_block_size", quantization);
    if (quantization->static_inputs) {
      fields.Fail("activation_scheme is 'static'; block-scaled weights need 'dynamic'");
    }
  }
  quantization->microscaled = HasFp4Experts(fields);
  for (const char* name : {"modules_to_not_convert", "ignored_layers"}) ReadIgnored(fields, name, quantization);
}

bool HasFp4Experts(JsonFields& fields) {
  return Word(fields, "expert_dtype", "fp8", {"fp4", "fp8", "bf16"}) == "fp4";
}

}  // namespace dunlin::engine

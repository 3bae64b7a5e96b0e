// SPDX-License-Identifier: Apache-2.0
#include "engine/model/load/opened_model.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/model/architectures/named_shapes.h"
#include "engine/model/checkpoint/checkpoint.h"
#include "engine/model/checkpoint/expert_tensors.h"
#include "engine/model/checkpoint/integer/integer_tensors.h"
#include "engine/model/checkpoint/integer_tables.h"
#include "engine/model/checkpoint/interleaved_experts.h"
#include "engine/model/checkpoint/merged_columns.h"
#include "engine/model/checkpoint/microscaled_tensors.h"
#include "engine/model/checkpoint/padded_heads.h"
#include "engine/model/checkpoint/rotary_rows.h"
#include "engine/model/checkpoint/shard_list.h"
#include "engine/model/checkpoint/torch/torch_file.h"
#include "engine/model/load/adaptable_modules.h"
#include "engine/model/load/gguf_model.h"
#include "engine/model/load/predictor.h"
#include "engine/model/spec/model_limits.h"
#include "engine/model/weights/input_scales.h"
#include "engine/model/weights/random_tensors.h"
#include "engine/model/weights/weight_scales.h"
#include "engine/model/weights/weight_tying.h"
#include "engine/model/weights/widened_tensors.h"

namespace dunlin::engine {
namespace {

absl::StatusOr<InputScales> ReadCalibration(const Directory& directory, const ModelConfig& config) {
  if (!directory.Has(kInputScalesFile)) return InputScales();
  const absl::StatusOr<std::string> text = directory.ReadFile(kInputScalesFile, kMaxConfigBytes);
  if (!text.ok()) return text.status();
  return ParseInputScales(*text, config);
}

// Gives the rows of Q and K in the order that the kernels rotate. A head of a latent query, and the latent row, have
// theirs at the end.
absl::Status OrderRotaryRows(OpenedModel* model) {
  const ModelConfig& config = model->parsed.config;
  if (!config.rotary.interleaved) return absl::OkStatus();
  std::vector<RotatedTensor> rotated;
  const LatentAttentionSpec& latent = config.attention.latent;
  const int64_t first_value =
      (int64_t{config.attention.num_heads} + config.attention.num_kv_heads) * config.attention.head_dim;
  for (const WeightPart& part : model->parts) {
    if (part.slot == WeightSlot::kQkv && part.row_begin < first_value) {
      rotated.push_back({part.tensor, config.attention.head_dim, 0});
    } else if (part.slot == WeightSlot::kLatentQuery) {
      rotated.push_back({part.tensor, latent.plain_dim + latent.rope_dim, latent.plain_dim});
    } else if (part.slot == WeightSlot::kKvDown && part.row_begin == 0) {  // one of the tensor's two parts
      rotated.push_back({part.tensor, config.attention.head_dim, latent.kv_rank});
    }
  }
  absl::StatusOr<std::unique_ptr<TensorSource>> ordered =
      RotaryRows::Open(std::move(model->tensors), rotated, config.rotary.dim);
  if (!ordered.ok()) return ordered.status();
  model->tensors = *std::move(ordered);
  return absl::OkStatus();
}

// Gives heads of V, where they are narrower than those of Q and K, zeros behind them.
absl::Status PadHeads(OpenedModel* model) {
  const AttentionSpec& attention = model->parsed.config.attention;
  if (attention.stored_value_dim == 0) return absl::OkStatus();
  std::vector<PaddedHeads::Matrix> padded;
  std::vector<std::string> names;
  for (const WeightPart& part : model->parts) {
    if (!IsOfValues(model->parsed.config, part)) continue;
    padded.push_back({part.tensor, part.slot == WeightSlot::kAttentionOut});
    names.push_back(part.tensor);
  }
  absl::StatusOr<std::unique_ptr<TensorSource>> tensors =
      WidenedTensors::Open(std::move(model->tensors), model->parsed.quantization, names);
  if (tensors.ok()) {
    tensors = PaddedHeads::Open(*std::move(tensors), padded, attention.stored_value_dim, attention.head_dim);
  }
  if (!tensors.ok()) return tensors.status();
  model->tensors = *std::move(tensors);
  return absl::OkStatus();
}

// Gives the matrix that merges patches its columns patch by patch.
absl::Status OrderMergedColumns(OpenedModel* model) {
  std::vector<std::string> names;
  for (const WeightPart& part : model->parts) {
    if (part.slot == WeightSlot::kProjectorMerge) names.push_back(part.tensor);
  }
  if (names.empty()) return absl::OkStatus();
  absl::StatusOr<std::unique_ptr<TensorSource>> tensors =
      WidenedTensors::Open(std::move(model->tensors), model->parsed.quantization, names);
  if (tensors.ok()) {
    tensors = MergedColumns::Open(*std::move(tensors), names, model->parsed.config.image.patches_per_row());
  }
  if (!tensors.ok()) return tensors.status();
  model->tensors = *std::move(tensors);
  return absl::OkStatus();
}

// Stacks of FP8 matrices have stacks of scales beside them.
void AddScaleStacks(const Quantization& quantization, std::vector<ExpertStack>* stacks) {
  constexpr std::string_view kScaledEnding = "weight";
  if (quantization.format == nullptr) return;
  for (size_t i = stacks->size(); i-- > 0;) {
    const ExpertStack stack = (*stacks)[i];
    if (!stack.stack.ends_with(kScaledEnding)) continue;
    const auto renamed = [&](const std::string& name, const char* ending) {
      return absl::StrCat(name.substr(0, name.size() - kScaledEnding.size()), ending);
    };
    for (const char* ending : quantization.format->weight_scales) {
      stacks->push_back({renamed(stack.stack, ending), renamed(stack.expert, ending)});
    }
  }
}

// How a checkpoint stacks its experts: of a square matrix as published.
ExpertLayout LayoutOf(const OpenedModel& model, const std::vector<ExpertStack>& stacks) {
  const ExpertLayout layout = model.parsed.names.expert_layout;
  if (layout != ExpertLayout::kColumnsOrRows) return layout;
  const ModelConfig& config = model.parsed.config;
  const bool rows = std::any_of(stacks.begin(), stacks.end(), [&](const ExpertStack& stack) {
    const TensorInfo* tensor = model.tensors->Find(stack.stack);
    return tensor != nullptr && tensor->shape.size() == 3 && tensor->shape[1] == 2 * int64_t{config.experts.ffn_dim} &&
           tensor->shape[1] != config.hidden_dim;
  });
  return rows ? ExpertLayout::kRows : ExpertLayout::kColumns;
}

// Gives every expert its tensors where the checkpoint has stacked them.
absl::Status SplitExperts(const std::string& prefix, OpenedModel* model) {
  const ModelConfig& config = model->parsed.config;
  if (!config.has_experts()) return absl::OkStatus();
  std::vector<ExpertStack> stacks = ListExpertStacks(model->parsed.names, config, prefix);
  const ExpertLayout layout = LayoutOf(*model, stacks);
  if (layout == ExpertLayout::kRows) AddScaleStacks(model->parsed.quantization, &stacks);
  const int32_t num_experts = config.experts.routing.num_experts;
  absl::StatusOr<std::unique_ptr<TensorSource>> split =
      layout == ExpertLayout::kRows ? ExpertTensors::Open(std::move(model->tensors), stacks, num_experts)
                                    : InterleavedExperts::Open(std::move(model->tensors), stacks, num_experts,
                                                               layout == ExpertLayout::kInterleaved);
  if (!split.ok()) return split.status();
  model->tensors = *std::move(split);
  return absl::OkStatus();
}

// Widens the FP8 matrices of latent attention that are cut or ordered anew.
absl::Status WidenRearranged(const std::string& prefix, OpenedModel* model) {
  const std::vector<std::string> rearranged = ListRearranged(model->parsed.names, model->parsed.config, prefix);
  const bool any = std::any_of(rearranged.begin(), rearranged.end(), [model](const std::string& name) {
    const TensorInfo* tensor = model->tensors->Find(name);
    return tensor != nullptr && tensor->dtype->loadable == kernels::DType::kF8E4M3;
  });
  if (!any) return absl::OkStatus();  // integer codes go through as they are
  absl::StatusOr<std::unique_ptr<TensorSource>> wide =
      WidenedTensors::Open(std::move(model->tensors), model->parsed.quantization, rearranged);
  if (!wide.ok()) return wide.status();
  model->tensors = *std::move(wide);
  return absl::OkStatus();
}

// Gives each head the matrices of its keys and values where there is latent attention.
absl::Status SplitHeads(const std::string& prefix, OpenedModel* model) {
  const ModelConfig& config = model->parsed.config;
  if (!config.attention.is_latent()) return absl::OkStatus();
  if (absl::Status status = WidenRearranged(prefix, model); !status.ok()) return status;
  const CheckpointNames& names = model->parsed.names;
  const std::vector<ExpertStack> stacks = ListHeadStacks(names, config, prefix);
  absl::StatusOr<std::unique_ptr<TensorSource>> split =
      stacks.empty() ? ExpertTensors::OpenSlices(std::move(model->tensors), ListHeadSlices(names, config, prefix))
                     : ExpertTensors::Open(std::move(model->tensors), stacks, config.attention.num_heads);
  if (!split.ok()) return split.status();
  model->tensors = *std::move(split);
  return absl::OkStatus();
}

// Gives weights of integers, and of floats in small groups, as plain tensors.
absl::Status OpenQuantized(OpenedModel* model) {
  const Quantization& quantization = model->parsed.quantization;
  if (quantization.microscaled) {
    absl::StatusOr<std::unique_ptr<TensorSource>> plain = MicroscaledTensors::Open(std::move(model->tensors));
    if (!plain.ok()) return plain.status();
    model->tensors = *std::move(plain);
  }
  if (quantization.integer.layout == IntegerLayout::kNone) return absl::OkStatus();
  absl::StatusOr<std::unique_ptr<TensorSource>> plain =
      IntegerTensors::Open(quantization.integer, std::move(model->tensors));
  if (!plain.ok()) return plain.status();
  model->tensors = *std::move(plain);
  return absl::OkStatus();
}

// Gives the tables of experts by token as numbers.
void ReadTokenExperts(OpenedModel* model) {
  std::vector<std::string> names;
  for (const WeightPart& part : model->parts) {
    if (part.slot == WeightSlot::kTokenExperts) names.push_back(part.tensor);
  }
  if (names.empty()) return;
  const int64_t num_experts = model->parsed.config.experts.routing.num_experts;
  model->tensors = IntegerTables::Open(std::move(model->tensors), names, num_experts);
}

// Matches the config's parts with the tensors.
absl::StatusOr<OpenedModel> OpenTensors(ParsedModel parsed, std::unique_ptr<TensorSource> tensors, bool predictor,
                                        bool read_weights) {
  OpenedModel model;
  model.parsed = std::move(parsed);
  model.tensors = std::move(tensors);
  CheckpointNames& names = model.parsed.names;
  if (absl::Status status = OpenQuantized(&model); !status.ok()) return status;
  const std::string prefix = FindPrefix(names, *model.tensors);
  if (predictor) {
    absl::Status found = FindPredictorTensors(prefix, &model.tensors, &model.parsed.config);
    if (found.ok()) found = AddPredictorLayer(&model.parsed.config);
    if (!found.ok()) return found;
  }
  SelectNames(model.parsed.config, prefix, *model.tensors, &names);
  if (absl::Status status = SplitExperts(prefix, &model); !status.ok()) return status;
  if (absl::Status status = SplitHeads(prefix, &model); !status.ok()) return status;
  model.parts = ListWeightParts(names, model.parsed.config, prefix);
  absl::Status tying = ResolveTying(names, prefix, *model.tensors, read_weights, &model.parsed.config, &model.parts,
                                    &model.parsed.warnings);
  if (!tying.ok()) return tying;
  ApplyAliases(names, *model.tensors, &model.parts);
  ApplyOldNormNames(*model.tensors, &model.parts);
  ReadTokenExperts(&model);
  if (absl::Status status = OrderRotaryRows(&model); !status.ok()) return status;
  if (absl::Status status = PadHeads(&model); !status.ok()) return status;
  if (absl::Status status = OrderMergedColumns(&model); !status.ok()) return status;
  absl::Status scales = FindScales(model.parsed.quantization, *model.tensors, &model.parts);
  if (!scales.ok()) return scales;
  if (absl::Status status = CheckParts(model.parts, *model.tensors); !status.ok()) return status;
  model.adaptable = ListAdaptable(model.parsed, prefix, model.parts);
  FindCodes(*model.tensors, &model.parts);
  model.encodings = WeightEncodings(model.parts, *model.tensors);
  const bool own = model.encodings.own_precision().has_value();
  for (std::string& warning : DequantizedWarnings(*model.tensors, model.parts, own)) {
    model.parsed.warnings.push_back(std::move(warning));
  }
  UnusedTensors unused = FindUnusedTensors(names, model.parsed.config, prefix, model.parts, *model.tensors);
  for (std::string& warning : unused.warnings) model.parsed.warnings.push_back(std::move(warning));
  model.skipped = std::move(unused.skipped);
  if (model.parsed.config.is_image_encoder()) return model;  // the text model tells of its own
  absl::StatusOr<std::string> kv_scales = CheckKvScales(*model.tensors, read_weights);
  if (!kv_scales.ok()) return kv_scales.status();
  if (!kv_scales->empty()) model.parsed.warnings.push_back(*std::move(kv_scales));
  return model;
}

// A directory with nanoGPT's file alone has its config in there.
absl::StatusOr<ParsedModel> ReadConfig(const Directory& directory) {
  if (directory.Has("config.json") || !directory.Has(kNanoGptFile)) return ReadModelConfig(directory);
  const absl::StatusOr<std::string> config = ReadNanoGptConfig(directory, kNanoGptFile);
  if (!config.ok()) return config.status();
  return ParseModelConfig(*config, "");
}

// config: of a multimodal model.
absl::StatusOr<ParsedModel> ImageEncoderOf(absl::StatusOr<std::optional<ParsedModel>> config) {
  if (!config.ok()) return config.status();
  if (config->has_value()) return **std::move(config);
  return absl::NotFoundError("config.json has no encoder of images that is served");
}

absl::StatusOr<OpenedModel> OpenImageEncoder(const ModelSource& source, bool read_weights) {
  const absl::StatusOr<Directory> directory = Directory::Open(source.path);
  if (!directory.ok()) return directory.status();
  absl::StatusOr<ParsedModel> parsed = ImageEncoderOf(ReadImageEncoderConfig(*directory));
  if (!parsed.ok()) return parsed.status();
  absl::StatusOr<std::unique_ptr<Checkpoint>> checkpoint = Checkpoint::Open(*directory);
  if (!checkpoint.ok()) return checkpoint.status();
  return OpenTensors(*std::move(parsed), *std::move(checkpoint), false, read_weights);
}

absl::StatusOr<OpenedModel> OpenDirectory(const ModelSource& source, bool read_weights) {
  if (source.part == ModelPart::kImageEncoder) return OpenImageEncoder(source, read_weights);
  const absl::StatusOr<Directory> directory = Directory::Open(source.path);
  if (!directory.ok()) return directory.status();
  absl::StatusOr<ParsedModel> parsed = ReadConfig(*directory);
  if (!parsed.ok()) return parsed.status();
  absl::StatusOr<std::unique_ptr<Checkpoint>> checkpoint = Checkpoint::Open(*directory);
  if (!checkpoint.ok()) return checkpoint.status();
  absl::StatusOr<OpenedModel> model =
      OpenTensors(*std::move(parsed), *std::move(checkpoint), source.predictor, read_weights);
  if (!model.ok()) return model;
  absl::StatusOr<InputScales> calibrated = ReadCalibration(*directory, model->parsed.config);
  if (!calibrated.ok()) return calibrated.status();
  model->calibrated = *std::move(calibrated);
  return model;
}

absl::StatusOr<OpenedModel> OpenGgufFile(const ModelSource& source, bool read_weights) {
  if (source.part == ModelPart::kImageEncoder) return absl::NotFoundError("a GGUF file has no encoder of images");
  if (source.predictor) {
    return absl::FailedPreconditionError(
        "models[].speculation.draft is \"mtp\", which is not served for GGUF files; a directory with the same weights "
        "is");
  }
  absl::StatusOr<std::unique_ptr<GgufTensors>> tensors = OpenGguf(source.path);
  if (!tensors.ok()) return tensors.status();
  absl::StatusOr<ParsedModel> parsed = ParseGgufModel(tensors->get());
  if (!parsed.ok()) return parsed.status();
  return OpenTensors(*std::move(parsed), *std::move(tensors), false, read_weights);
}

absl::StatusOr<std::string> ReadShape(const std::string& shape) {
  if (const NamedShape* named = FindNamedShape(shape)) return std::string(named->config_json);
  if (shape.starts_with('{')) return shape;
  const size_t slash = shape.rfind('/');
  if (!shape.ends_with(".json")) {
    const auto name = [](std::string* out, const NamedShape& row) { absl::StrAppend(out, row.name); };
    return absl::InvalidArgumentError(absl::StrCat("unknown shape; known: ", absl::StrJoin(NamedShapes(), ", ", name),
                                                   ", or a path to a config.json"));
  }
  const std::string folder = slash == std::string::npos ? "." : shape.substr(0, slash + 1);
  const absl::StatusOr<Directory> directory = Directory::Open(folder);
  if (!directory.ok()) return directory.status();
  return directory->ReadFile(slash == std::string::npos ? shape : shape.substr(slash + 1), kMaxConfigBytes);
}

absl::StatusOr<OpenedModel> OpenRandom(const ModelSource& source) {
  const absl::StatusOr<std::string> text = ReadShape(source.random_shape);
  if (!text.ok()) return text.status();
  absl::StatusOr<ParsedModel> parsed = source.part == ModelPart::kImageEncoder
                                           ? ImageEncoderOf(ParseImageEncoderConfig(*text))
                                           : ParseModelConfig(*text, "");
  if (!parsed.ok()) return parsed.status();
  OpenedModel model;
  model.parsed = *std::move(parsed);
  if (source.predictor) {
    if (absl::Status added = AddPredictorLayer(&model.parsed.config); !added.ok()) return added;
  }
  const CheckpointNames& names = model.parsed.names;
  model.parts = ListWeightParts(names, model.parsed.config, names.prefixes.front());
  model.adaptable = ListAdaptable(model.parsed, names.prefixes.front(), model.parts);
  model.tensors = std::make_unique<RandomTensors>(model.parts, source.random_seed);
  return model;
}

}  // namespace

absl::StatusOr<OpenedModel> OpenModelSource(const ModelSource& source, bool read_weights) {
  const bool random = source.path.empty();
  if (random && source.random_shape.empty())
    return absl::InvalidArgumentError("a model needs a path or a random shape");
  absl::StatusOr<OpenedModel> model = random                    ? OpenRandom(source)
                                      : IsGgufPath(source.path) ? OpenGgufFile(source, read_weights)
                                                                : OpenDirectory(source, read_weights);
  if (model.ok()) return model;
  const std::string where = random ? absl::StrCat("shape '", source.random_shape, "'") : source.path;
  return absl::Status(model.status().code(), absl::StrCat(where, ": ", model.status().message()));
}

}  // namespace dunlin::engine

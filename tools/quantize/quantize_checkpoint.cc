// SPDX-License-Identifier: Apache-2.0
#include "tools/quantize/quantize_checkpoint.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/file.h"
#include "engine/base/number_words.h"
#include "engine/layers/fp8_scaling.h"
#include "engine/model/checkpoint/checkpoint.h"
#include "engine/model/load/gguf_model.h"
#include "engine/model/load/opened_model.h"
#include "engine/model/spec/model_limits.h"
#include "kernels/api/float_formats.h"
#include "tools/quantize/gptq.h"
#include "tools/quantize/group_codes.h"
#include "tools/quantize/input_moments.h"
#include "tools/quantize/packed_tensors.h"
#include "tools/quantize/safetensors_writer.h"
#include "tools/quantize/text_windows.h"

namespace dunlin::engine {
namespace {

constexpr std::string_view kWeightEnding = ".weight";
constexpr size_t kCopyBytes = size_t{16} << 20;
// Linear layers outside the blocks, whose weights stay as they are even where they are tied to the embedding.
constexpr const char* kHeadModules[] = {"lm_head", "embed_out"};

// A weight that becomes codes.
struct Job {
  std::string module;
  const TensorInfo* tensor;
  std::optional<int32_t> input;  // that it is multiplied with; none: it is rounded to nearest
  CodeLayout layout;

  int64_t rows() const { return tensor->shape[0]; }
  int64_t columns() const { return tensor->shape[1]; }
};

// The linear layers inside the blocks, and the input that a text shows of each: none of experts, which a text may not
// reach. What is not here stays exact or wide: routers choose, and a recurrent layer's gates and decays (kDeltaGates)
// are carried on from token to token.
struct QuantizedSlot {
  WeightSlot slot;
  std::optional<LayerInput> input = std::nullopt;
};
constexpr QuantizedSlot kQuantizedSlots[] = {
    {WeightSlot::kQkv, LayerInput::kQkv},
    {WeightSlot::kDeltaIn, LayerInput::kQkv},
    {WeightSlot::kShortConvIn, LayerInput::kQkv},
    {WeightSlot::kMambaIn, LayerInput::kQkv},
    {WeightSlot::kAttentionOut, LayerInput::kAttentionOut},
    {WeightSlot::kDeltaOut, LayerInput::kAttentionOut},
    {WeightSlot::kShortConvOut, LayerInput::kAttentionOut},
    {WeightSlot::kMambaOut, LayerInput::kAttentionOut},
    {WeightSlot::kMlpUp, LayerInput::kMlpUp},
    {WeightSlot::kMlpDown, LayerInput::kMlpDown},
    {WeightSlot::kExpertUp},
    {WeightSlot::kExpertDown},
    {WeightSlot::kSharedUp},
    {WeightSlot::kSharedDown},
};

// Null for a part that stays as it is.
const QuantizedSlot* QuantizedSlotOf(const WeightPart& part) {
  if (part.is_vector() || !part.tensor.ends_with(kWeightEnding)) return nullptr;
  const auto* row = std::find_if(std::begin(kQuantizedSlots), std::end(kQuantizedSlots),
                                 [&part](const QuantizedSlot& slot) { return slot.slot == part.slot; });
  return row == std::end(kQuantizedSlots) ? nullptr : row;
}

absl::StatusOr<std::vector<float>> ReadFloats(const TensorSource& source, const TensorInfo& tensor) {
  std::vector<std::byte> bytes(tensor.end - tensor.begin);
  if (absl::Status status = source.Read(tensor, 0, bytes); !status.ok()) return status;
  const kernels::DType dtype = *tensor.dtype->loadable;
  std::vector<float> values(bytes.size() / kernels::SizeOf(dtype));
  for (size_t i = 0; i < values.size(); ++i) {
    if (dtype == kernels::DType::kF32) {
      std::memcpy(&values[i], bytes.data() + i * sizeof(float), sizeof(float));
    } else {
      uint16_t word = 0;
      std::memcpy(&word, bytes.data() + i * sizeof(word), sizeof(word));
      values[i] = dtype == kernels::DType::kF16 ? kernels::Fp16ToFloat(word) : kernels::Bf16ToFloat(word);
    }
    if (!std::isfinite(values[i])) {
      return absl::InvalidArgumentError(absl::StrCat("tensor '", tensor.name, "': element ", i, " is not finite"));
    }
  }
  return values;
}

class Quantizer {
 public:
  Quantizer(const QuantizeOptions& options, const ModelConfig& config, const Directory& directory,
            const TensorSource& source)
      : options_(options), config_(config), directory_(directory), source_(source) {}

  absl::StatusOr<QuantizeReport> Run(const std::vector<WeightPart>& parts, const Model* model,
                                     std::span<const TokenId> tokens) {
    absl::StatusOr<std::string> text = directory_.ReadFile("config.json", kMaxConfigBytes);
    if (!text.ok()) return text.status();
    config_text_ = *std::move(text);
    if (model != nullptr && config_.experts.beside_mlp) {
      return absl::FailedPreconditionError(
          absl::StrCat(config_.architecture, " has experts next to each MLP, whose inputs are not told apart: it ",
                       "is quantised without a calibration text"));
    }
    if (absl::Status status = FindJobs(parts); !status.ok()) return status;
    absl::StatusOr<SafetensorsWriter> writer = SafetensorsWriter::Create(options_.out, PlanTensors());
    if (!writer.ok()) return writer.status();
    writer_ = &*writer;
    for (const TensorInfo* tensor : kept_) {
      if (absl::Status status = Copy(*tensor); !status.ok()) return status;
    }
    if (absl::Status status = model == nullptr ? RoundOthers(true) : RunGptq(*model, tokens); !status.ok())
      return status;
    if (absl::Status status = source_.CheckUnchanged(); !status.ok()) return status;
    report_.bytes_after = writer->total_bytes();
    if (absl::Status status = writer->Finish(); !status.ok()) return status;
    if (absl::Status status = WriteConfig(); !status.ok()) return status;
    return report_;
  }

  // What is rounded and what is copied. Errors: a matrix that the format has no layout for.
  absl::Status FindJobs(const std::vector<WeightPart>& parts) {
    std::set<const TensorInfo*> taken;
    bool stacked = false;
    for (const WeightPart& part : parts) {
      const TensorInfo* tensor = source_.Find(part.tensor);
      if (tensor == nullptr && IsPerExpert(part.slot) && !part.is_vector() && !std::exchange(stacked, true)) {
        options_.progress(absl::StrCat("experts that are stacked in one tensor keep their dtype: '", part.tensor,
                                       "' and its like; the format has no codes for them"));
      }
      const bool matrix = tensor != nullptr && tensor->shape.size() == 2;  // not a stack of experts
      const QuantizedSlot* slot = QuantizedSlotOf(part);
      if (!matrix || slot == nullptr || !taken.insert(tensor).second) continue;
      if (part.transposed) {
        return absl::InvalidArgumentError(absl::StrCat("tensor '", part.tensor, "' is stored [in_features, ",
                                                       "out_features], which compressed-tensors has no layout for"));
      }
      Job job{.module = part.tensor.substr(0, part.tensor.size() - kWeightEnding.size()),
              .tensor = tensor,
              .input = std::nullopt,
              .layout = {.bits = options_.bits,
                         .group = options_.group == 0 ? tensor->shape[1] : options_.group,
                         .scale_dtype = *tensor->dtype->loadable}};
      // Next to attention the input of Mamba2's output projection is not observed.
      const bool observed = part.slot != WeightSlot::kMambaOut || !config_.attends(part.layer);
      if (slot->input.has_value() && observed) job.input = InputIndex(part.layer, *slot->input);
      if (job.columns() % job.layout.group != 0) {
        return absl::InvalidArgumentError(absl::StrCat("tensor '", part.tensor, "' has ", job.columns(),
                                                       " columns, which groups of ", job.layout.group,
                                                       " do not divide"));
      }
      jobs_.push_back(std::move(job));
    }
    for (const TensorInfo* tensor : source_.List()) {
      report_.bytes_before += tensor->end - tensor->begin;
      if (!taken.contains(tensor)) kept_.push_back(tensor);
    }
    std::sort(kept_.begin(), kept_.end(), [](const auto* a, const auto* b) { return a->name < b->name; });
    return absl::OkStatus();
  }

 private:
  std::vector<OutputTensor> PlanTensors() const {
    std::vector<OutputTensor> tensors;
    for (const TensorInfo* tensor : kept_) {
      tensors.push_back({tensor->name, tensor->dtype->name, tensor->shape, tensor->end - tensor->begin});
    }
    for (const Job& job : jobs_) {
      for (OutputTensor& tensor : PackedTensorsOf(job.module, job.layout, job.rows(), job.columns())) {
        tensors.push_back(std::move(tensor));
      }
    }
    return tensors;
  }

  absl::Status Copy(const TensorInfo& tensor) {
    const uint64_t size = tensor.end - tensor.begin;
    std::vector<std::byte> bytes(std::min<uint64_t>(size, kCopyBytes));
    for (uint64_t first = 0; first < size; first += bytes.size()) {
      bytes.resize(std::min<uint64_t>(size - first, kCopyBytes));
      if (absl::Status status = source_.Read(tensor, first, bytes); !status.ok()) return status;
      if (absl::Status status = writer_->Write(tensor.name, first, bytes); !status.ok()) return status;
    }
    return absl::OkStatus();
  }

  absl::Status Store(const Job& job, const CodedMatrix& matrix) {
    const std::vector<OutputTensor> tensors = PackedTensorsOf(job.module, job.layout, job.rows(), job.columns());
    const std::vector<std::vector<std::byte>> bytes = PackedBytesOf(matrix);
    for (size_t i = 0; i < tensors.size(); ++i) {
      if (absl::Status status = writer_->Write(tensors[i].name, 0, bytes[i]); !status.ok()) return status;
    }
    ++report_.matrices;
    report_.parameters += job.rows() * job.columns();
    return absl::OkStatus();
  }

  // Rounds to nearest: all jobs, or those that GPTQ has no input of.
  absl::Status RoundOthers(bool all) {
    for (const Job& job : jobs_) {
      if (!all && job.input.has_value()) continue;
      const absl::StatusOr<std::vector<float>> values = ReadFloats(source_, *job.tensor);
      if (!values.ok()) return values.status();
      absl::Status status = Store(job, RoundToNearest(job.layout, values->data(), job.rows(), job.columns()));
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }

  // The inputs of the jobs from `first` on whose moments may be kept at once, with their columns.
  std::map<int32_t, int64_t> NextInputs(size_t first) const {
    std::map<int32_t, int64_t> inputs;
    size_t bytes = 0;
    for (size_t i = first; i < by_input_.size(); ++i) {
      const Job& job = *by_input_[i];
      if (inputs.contains(*job.input)) continue;
      bytes += static_cast<size_t>(job.columns() * job.columns()) * sizeof(float);
      if (!inputs.empty() && bytes > options_.moments_bytes) break;
      inputs[*job.input] = job.columns();
    }
    return inputs;
  }

  absl::Status RunGptq(const Model& model, std::span<const TokenId> tokens) {
    const absl::StatusOr<TextWindows> windows = TextWindows::Create(model, ExecutionMode::kEager);
    if (!windows.ok()) return windows.status();
    if (absl::Status status = RoundOthers(false); !status.ok()) return status;
    for (const Job& job : jobs_) {
      if (job.input.has_value()) by_input_.push_back(&job);
    }
    std::stable_sort(by_input_.begin(), by_input_.end(),
                     [](const Job* a, const Job* b) { return *a->input < *b->input; });
    size_t next = 0;
    while (next < by_input_.size()) {
      const std::map<int32_t, int64_t> inputs = NextInputs(next);
      options_.progress(absl::StrCat("observing ", inputs.size(), " inputs over ", tokens.size(), " tokens"));
      InputMoments moments(model.device(), inputs);
      if (absl::Status status = windows->Run(tokens, {.inputs = &moments}); !status.ok()) return status;
      for (const auto& [input, columns] : inputs) {
        const absl::StatusOr<GptqFactor> factor = GptqFactor::Of(moments.Take(input), columns, options_.by_activity);
        if (!factor.ok()) return factor.status();
        for (; next < by_input_.size() && *by_input_[next]->input == input; ++next) {
          if (absl::Status status = RunJob(*by_input_[next], *factor); !status.ok()) return status;
        }
      }
    }
    return absl::OkStatus();
  }

  absl::Status RunJob(const Job& job, const GptqFactor& factor) {
    absl::StatusOr<std::vector<float>> values = ReadFloats(source_, *job.tensor);
    if (!values.ok()) return values.status();
    options_.progress(absl::StrCat("rounding ", job.module));
    return Store(job, factor.Quantize(job.layout, *std::move(values), job.rows(), options_.num_threads));
  }

  // config.json with quantization_config; every other field as it was.
  absl::Status WriteConfig() const {
    std::vector<std::string> ignored(std::begin(kHeadModules), std::end(kHeadModules));
    for (const TensorInfo* tensor : kept_) {
      const bool matrix = tensor->shape.size() == 2 && tensor->name.ends_with(kWeightEnding);
      std::string module = matrix ? tensor->name.substr(0, tensor->name.size() - kWeightEnding.size()) : "";
      const bool is_head =
          std::find(std::begin(kHeadModules), std::end(kHeadModules), module) != std::end(kHeadModules);
      if (matrix && !is_head) ignored.push_back(std::move(module));
    }
    const NumberWords words(config_text_);
    nlohmann::ordered_json config = nlohmann::ordered_json::parse(words.AsStrings(config_text_));
    const CodeLayout layout = {.bits = options_.bits, .group = options_.group};
    config["quantization_config"] = PackedConfig(layout, options_.group == 0, options_.by_activity, ignored);
    const std::string path = absl::StrCat(options_.out, "/config.json");
    std::ofstream stream(path, std::ios::binary | std::ios::trunc);
    stream << words.WithWords(config.dump(2)) << "\n";
    stream.close();
    if (stream) return absl::OkStatus();
    return absl::InternalError(absl::StrCat(path, " cannot be written"));
  }

  const QuantizeOptions& options_;
  const ModelConfig& config_;
  const Directory& directory_;
  const TensorSource& source_;
  std::string config_text_;
  std::vector<Job> jobs_;                // in the order of the parts
  std::vector<const Job*> by_input_;     // GPTQ's order
  std::vector<const TensorInfo*> kept_;  // copied as they are, by name
  SafetensorsWriter* writer_ = nullptr;
  QuantizeReport report_;
};

// Opens the directory and calls use(quantizer, parts of the weights).
template <class Result, class Use>
Result WithQuantizer(const QuantizeOptions& options, Use use) {
  ModelSource model_source;
  model_source.path = options.directory;
  model_source.precisions = {Precision::kFp32};
  const absl::StatusOr<OpenedModel> opened = OpenModelSource(model_source, false);
  if (!opened.ok()) return opened.status();
  const QuantizationFormat* format = opened->parsed.quantization.format;
  if (format != nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(options.directory, " is quantised already: ", format->name));
  }
  const absl::StatusOr<Directory> directory = Directory::Open(options.directory);
  if (!directory.ok()) return directory.status();
  // As stored: the opened model may give rows in another order.
  const absl::StatusOr<std::unique_ptr<Checkpoint>> checkpoint = Checkpoint::Open(*directory);
  if (!checkpoint.ok()) return checkpoint.status();
  Quantizer quantizer(options, opened->parsed.config, *directory, **checkpoint);
  return use(&quantizer, opened->parts);
}

}  // namespace

absl::Status CheckQuantizable(const QuantizeOptions& options) {
  if (IsGgufPath(options.directory)) {
    return absl::InvalidArgumentError(
        absl::StrCat(options.directory, " is a GGUF file; a Hugging Face directory is wanted, with its wide weights"));
  }
  QuantizeOptions silent = options;
  silent.progress = [](const std::string&) {};
  return WithQuantizer<absl::Status>(
      silent, [](Quantizer* quantizer, const std::vector<WeightPart>& parts) { return quantizer->FindJobs(parts); });
}

absl::StatusOr<QuantizeReport> QuantizeCheckpoint(const QuantizeOptions& options, const Model* model,
                                                  std::span<const TokenId> tokens) {
  return WithQuantizer<absl::StatusOr<QuantizeReport>>(
      options, [model, tokens](Quantizer* quantizer, const std::vector<WeightPart>& parts) {
        return quantizer->Run(parts, model, tokens);
      });
}

}  // namespace dunlin::engine

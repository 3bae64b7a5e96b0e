// SPDX-License-Identifier: Apache-2.0
#include "server/models/image_input.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <random>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/check.h"
#include "engine/encoder/encoder_runtime.h"
#include "engine/layers/embedding.h"
#include "engine/model/load/load_model.h"
#include "engine/model/load/opened_model.h"
#include "engine/runtime/profiles.h"
#include "server/process/monotonic_clock.h"

namespace dunlin::server {
namespace {

using engine::Precision;

absl::Status OfEncoder(const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat("image encoder: ", status.message()));
}

// A wide one, whatever the decoder runs in: an image's rows are the same for all requests.
Precision PrecisionOf(const ModelSettings& settings) {
  for (const Precision precision : settings.source.precisions) {
    if (precision == Precision::kFp32 || precision == Precision::kFp16) return precision;
    if (precision == Precision::kBf16) break;
  }
  return Precision::kBf16;
}

// Where files allow larger images: Qwen's would need 3.6 GB of buffers.
constexpr int32_t kDefaultEdge = 2048;

// The special tokens of an image, by the encoder's architecture.
struct ImageTokenNames {
  std::string_view encoder;
  const char* row;
  const char* line_end;  // null: lines have no end
  const char* end;       // as line_end
};
constexpr ImageTokenNames kTokenNames[] = {
    {"pixtral", "[IMG]", "[IMG_BREAK]", "[IMG_END]"},
    {"qwen_vision", "<|image_pad|>", nullptr, nullptr},
};

absl::Status SetToken(const text::Tokenizer& tokenizer, const char* name, engine::TokenId* token) {
  if (name == nullptr) return absl::OkStatus();
  const std::optional<engine::TokenId> id = tokenizer.TokenToId(name);
  if (id.has_value() && tokenizer.IsSpecial(*id)) {
    *token = *id;
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(absl::StrCat("the tokenizer has no special token ", name));
}

absl::StatusOr<ImageTokens> TokensOf(const text::Tokenizer& tokenizer, std::string_view encoder) {
  const auto* const names = std::find_if(std::begin(kTokenNames), std::end(kTokenNames),
                                         [&](const ImageTokenNames& row) { return row.encoder == encoder; });
  DUNLIN_CHECK(names != std::end(kTokenNames), "every image encoder has a row");
  ImageTokens tokens;
  absl::Status status = SetToken(tokenizer, names->row, &tokens.row);
  status.Update(SetToken(tokenizer, names->line_end, &tokens.line_end));
  status.Update(SetToken(tokenizer, names->end, &tokens.end));
  if (!status.ok()) return status;
  return tokens;
}

engine::Digest RandomKey() {
  engine::Digest key;
  std::random_device random;
  for (uint32_t& word : key) word = random();
  return key;
}

}  // namespace

absl::StatusOr<text::ImageProcessor> FindImageProcessor(const ModelSettings& settings, const engine::TextFiles& files,
                                                        const engine::ModelConfig& decoder) {
  if (settings.images.max_images == 0) return absl::NotFoundError("models[].images.max_images is 0");
  const auto encoder = engine::ReadImageEncoderConfig(files);
  if (!encoder.ok()) return encoder.status();
  if (!encoder->has_value()) return absl::NotFoundError("it is a model of text alone");
  if (!engine::TakesRows(decoder, settings.source.num_ranks)) {
    return absl::FailedPreconditionError(settings.source.num_ranks > 1 ? "models[].parallel.tensor is more than 1"
                                                                       : "its decoder takes tokens alone");
  }
  absl::StatusOr<text::ImageProcessor> processor = text::LoadImageProcessor(files);
  if (!processor.ok()) return absl::FailedPreconditionError(processor.status().message());
  const int32_t edge = settings.images.longest_edge;
  text::LimitEdge(edge > 0 ? edge : kDefaultEdge, &*processor);
  return processor;
}

size_t DecodingBytes(const ModelSettings& settings, const text::ImageProcessor& processor, int32_t columns) {
  constexpr size_t kBytesPerPixel = 20;  // of a decoder, for PNG files of 16 bits, and of the image
  const auto max_patches = static_cast<size_t>(text::MaxPatches(processor));
  const size_t patches = max_patches * 3 * static_cast<size_t>(processor.patch_size * processor.patch_size);
  const size_t rows = max_patches / static_cast<size_t>(processor.merge_size * processor.merge_size);
  const size_t floats = patches + rows * static_cast<size_t>(columns);
  return ImageStore::kMaxTurns *
         (kBytesPerPixel * static_cast<size_t>(settings.images.max_pixels) + floats * sizeof(float));
}

engine::ModelSource ImageEncoderSource(const ModelSettings& settings) {
  engine::ModelSource source;
  source.path = settings.source.path;
  source.part = engine::ModelPart::kImageEncoder;
  source.precisions = {PrecisionOf(settings)};
  return source;
}

engine::EngineOptions ImageEncoderOptions(const ModelSettings& settings, const text::ImageProcessor& processor) {
  // Its queue is the store's: here a call finds room, though calls that have ended may count for a while.
  constexpr int32_t kQueuedCalls = 64 * ImageStore::kMaxTurns;
  engine::EngineOptions options = settings.engine;
  options.max_context_tokens = static_cast<int32_t>(text::MaxPatches(processor));
  options.max_tokens_per_step = options.max_context_tokens;
  options.max_sequences = ImageStore::kMaxTurns;
  options.max_queued_requests = kQueuedCalls;
  options.max_queued_tokens = int64_t{kQueuedCalls} * options.max_context_tokens;
  options.fp8 = {};
  options.kv_fp8 = false;
  options.adapters = {};
  return options;
}

absl::StatusOr<std::unique_ptr<ImageInput>> LoadImageInput(const ModelSettings& settings,
                                                           const text::ImageProcessor& processor,
                                                           const engine::ModelConfig& decoder,
                                                           const text::Tokenizer& tokenizer, kernels::Device* device,
                                                           const std::atomic<bool>& stop) {
  auto images = std::make_unique<ImageInput>(settings.images.memory_bytes, RandomKey());
  const engine::ModelSource source = ImageEncoderSource(settings);
  absl::StatusOr<std::unique_ptr<engine::Model>> model = engine::LoadModel(source, device, &stop);
  if (!model.ok()) return OfEncoder(model.status());
  const engine::ModelConfig& config = (*model)->config();
  const absl::StatusOr<ImageTokens> tokens = TokensOf(tokenizer, config.architecture);
  if (!tokens.ok()) return OfEncoder(tokens.status());
  if (config.image.patch_size != processor.patch_size || config.image.merge != processor.merge_size) {
    return OfEncoder(absl::FailedPreconditionError(
        absl::StrCat("config.json has patches of ", config.image.patch_size, " pixels, merged by ", config.image.merge,
                     "; the image processor's are of ", processor.patch_size, ", merged by ", processor.merge_size)));
  }
  const engine::EngineOptions options = ImageEncoderOptions(settings, processor);
  const engine::ProfileTable profiles(config, (*model)->precisions(), *device, options, std::nullopt, false);
  const absl::StatusOr<engine::ExecutionProfile> profile = profiles.Resolve({});
  if (!profile.ok()) return OfEncoder(profile.status());
  absl::StatusOr<std::unique_ptr<engine::ModelEncoderRuntime>> runtime =
      engine::ModelEncoderRuntime::Create(model->get(), options);
  if (!runtime.ok()) return OfEncoder(runtime.status());
  std::string notice;
  if (absl::Status status = (*runtime)->WarmUp(profiles, &notice); !status.ok()) return OfEncoder(status);
  if (!notice.empty()) spdlog::warn("model \"{}\": image encoder: {}", settings.name, notice);
  spdlog::info("model \"{}\": sees images, by {} with {} parameters in {}; buffers: {}", settings.name,
               config.architecture, (*model)->num_parameters(), Name(profile->precision),
               engine::Describe((*runtime)->memory_plan()));
  images->processor = processor;
  images->tokens = *tokens;
  images->merge = config.image.merge;
  images->columns = decoder.hidden_dim;
  images->rotates_by_place = !decoder.rotary.axes.empty();
  images->max_images = settings.images.max_images;
  images->max_pixels = settings.images.max_pixels;
  images->profile = *profile;
  images->model = *std::move(model);
  images->encoder =
      std::make_unique<engine::EncoderEngine>(options, config, *std::move(runtime), &MonotonicNs, nullptr);
  images->max_patches = images->encoder->limits().max_input_tokens;
  return images;
}

}  // namespace dunlin::server

// SPDX-License-Identifier: Apache-2.0
// What a multimodal model needs to see images: how they are prepared, the tokens that stand for them in its prompts,
// and the encoder that makes rows of them. Constant once loaded, but for the store. Thread rule: any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/base/file.h"
#include "engine/cache/keyed_hash.h"
#include "engine/encoder/encoder_engine.h"
#include "engine/model/model.h"
#include "engine/request/options.h"
#include "engine/request/types.h"
#include "kernels/api/device.h"
#include "server/config/config.h"
#include "server/models/image_store.h"
#include "text/images/image_processor.h"
#include "text/tokenizer.h"

namespace dunlin::server {

// The tokens of an image of R x C rows of the encoder: R times C of `row`, each line followed by `line_end` and the
// last one by `end`, where the model has them. The chat template writes one `row`.
struct ImageTokens {
  engine::TokenId row = -1;
  engine::TokenId line_end = -1;  // -1: none, and none at the end
  engine::TokenId end = -1;

  bool has_line_ends() const { return line_end >= 0; }
};

struct ImageInput {
  ImageInput(size_t memory_bytes, const engine::Digest& key) : hash(key), store(memory_bytes) {}

  text::ImageProcessor processor;
  ImageTokens tokens;
  int32_t merge = 1;              // merge x merge patches are one row
  int32_t columns = 0;            // of a row: the decoder's hidden_dim
  bool rotates_by_place = false;  // PromptRows::Span::image_columns
  int32_t max_images = 0;         // of a request
  int64_t max_pixels = 0;         // of a file
  int64_t max_patches = 0;        // of an image
  engine::ExecutionProfile profile;
  engine::KeyedHash hash;  // of files; its key is random
  ImageStore store;
  std::unique_ptr<engine::Model> model;
  std::unique_ptr<engine::EncoderEngine> encoder;  // last: it stops before the model is destroyed
};

// The image processor of a model whose image encoder is served. NOT_FOUND: it is a model of text alone; else why images
// are refused, in words that follow "it takes no images: ".
absl::StatusOr<text::ImageProcessor> FindImageProcessor(const ModelSettings& settings, const engine::TextFiles& files,
                                                        const engine::ModelConfig& decoder);

// What images that are decoded and encoded at once take besides the rows of requests. columns: of a row.
size_t DecodingBytes(const ModelSettings& settings, const text::ImageProcessor& processor, int32_t columns);

// The engine options of its encoder, but for those that are the model's.
engine::EngineOptions ImageEncoderOptions(const ModelSettings& settings, const text::ImageProcessor& processor);

// The model's source, as its image encoder's.
engine::ModelSource ImageEncoderSource(const ModelSettings& settings);

// Loads it and starts its engine. processor: FindImageProcessor's. Errors: as engine::LoadModel, and of the files of
// the processor; messages begin with "image encoder: ".
absl::StatusOr<std::unique_ptr<ImageInput>> LoadImageInput(const ModelSettings& settings,
                                                           const text::ImageProcessor& processor,
                                                           const engine::ModelConfig& decoder,
                                                           const text::Tokenizer& tokenizer, kernels::Device* device,
                                                           const std::atomic<bool>& stop);

}  // namespace dunlin::server

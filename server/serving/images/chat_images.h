// SPDX-License-Identifier: Apache-2.0
// The images of a chat and their places in its prompt, which their sizes alone decide. Pure.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/cache/page.h"
#include "engine/request/prompt_rows.h"
#include "server/models/image_input.h"
#include "server/models/served_model.h"
#include "server/serving/record/client_field.h"
#include "text/chat_template.h"
#include "text/images/image_processor.h"

namespace dunlin::server {

struct PromptImage {
  std::shared_ptr<const std::string> file;
  engine::FieldIndex part{};  // message and part that it is
  text::ImageGrid grid{};     // in patches
  int32_t first = 0;          // its first token's position in the prompt
};

// A chat's images in their order, without places. INVALID_ARGUMENT, with the part: the model sees none, there are more
// than models[].images.max_images, or a file's header is not that of an image within its limits.
absl::StatusOr<std::vector<PromptImage>> ReadChatImages(const ServedModel& model, const text::ChatInput& chat,
                                                        const FieldNames& names);

// Puts the tokens of each image (ImageTokens) in the place of the one that the template wrote, and sets its place.
// INVALID_ARGUMENT, as CHAT_REFUSED: the template wrote more or fewer than there are images.
absl::Status PlaceImages(const ImageInput& input, std::vector<engine::TokenId>* prompt,
                         std::vector<PromptImage>* images);

// Rows of the encoder that an image becomes, and where they stand in the prompt.
int64_t NumRows(const ImageInput& input, const PromptImage& image);
void AppendSpans(const ImageInput& input, const PromptImage& image, std::vector<engine::PromptRows::Span>* spans);

// What tells an image from others among requests of one salt.
engine::Digest DigestOf(const ImageInput& input, std::string_view salt, const PromptImage& image);
// Replaces the tokens of its rows by row tokens, which are those of no other digest: ImageStore::NumberOf, the same for
// all of them, since their places tell them apart.
void SetRowTokens(ImageInput* input, const PromptImage& image, const engine::Digest& digest,
                  std::vector<engine::TokenId>* prompt);

}  // namespace dunlin::server

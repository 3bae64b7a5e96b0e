// SPDX-License-Identifier: Apache-2.0
#include "server/serving/images/chat_images.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/string_view.h"
#include "server/serving/record/errors.h"

namespace dunlin::server {
namespace {

using engine::Violation;
using C = ClientField;

// Lines of a prompt, and rows of a line.
text::ImageGrid RowGrid(const ImageInput& input, const PromptImage& image) {
  return {image.grid.rows / input.merge, image.grid.columns / input.merge};
}

absl::Status ReadGrid(const ImageInput& input, PromptImage* image) {
  const absl::StatusOr<text::ImageSize> size = text::ReadImageSize(*image->file, {.max_pixels = input.max_pixels});
  if (!size.ok()) return size.status();
  const absl::StatusOr<text::ImageGrid> grid = text::GridOf(input.processor, *size);
  if (!grid.ok()) return grid.status();
  if (grid->num_patches() > input.max_patches) {
    return absl::InvalidArgumentError(
        absl::StrCat("is ", grid->num_patches(), " patches; limit is ", input.max_patches));
  }
  image->grid = *grid;
  return absl::OkStatus();
}

absl::Status Misplaced(size_t placed, size_t images) {
  return MakeError(Reason::kChatRefused,
                   absl::StrCat("the chat template has places for ", placed, " of the chat's ", images, " images"));
}

}  // namespace

absl::StatusOr<std::vector<PromptImage>> ReadChatImages(const ServedModel& model, const text::ChatInput& chat,
                                                        const FieldNames& names) {
  std::vector<PromptImage> images;
  for (size_t i = 0; i < chat.messages.size(); ++i) {
    const std::vector<text::ChatPart>& parts = chat.messages[i].parts;
    for (size_t k = 0; k < parts.size(); ++k) {
      if (parts[k].image == nullptr) continue;
      images.push_back({parts[k].image, {static_cast<int64_t>(i), static_cast<int64_t>(k)}});
    }
  }
  if (images.empty()) return images;
  if (!model.sees_images()) {
    return InvalidField(Violation::Of(C::kChatPartImage, "is an image", absl::StrCat("texts: ", model.image_refusal),
                                      images.front().part),
                        names);
  }
  const ImageInput& input = *model.images;
  if (std::ssize(images) > input.max_images) {
    return InvalidField(Violation::Of(C::kChatImages, absl::StrCat("have ", images.size(), " images"),
                                      absl::StrCat(input.max_images, " (models[].images.max_images)")),
                        names);
  }
  for (PromptImage& image : images) {
    const absl::Status read = ReadGrid(input, &image);
    if (!read.ok()) return RefusedByText(read, C::kChatPartImage, image.part, names);
  }
  return images;
}

absl::Status PlaceImages(const ImageInput& input, std::vector<engine::TokenId>* prompt,
                         std::vector<PromptImage>* images) {
  const ImageTokens& tokens = input.tokens;
  const auto placed = static_cast<size_t>(std::count(prompt->begin(), prompt->end(), tokens.row));
  if (placed != images->size()) return Misplaced(placed, images->size());
  std::vector<engine::TokenId> out;
  size_t next = 0;
  for (const engine::TokenId id : *prompt) {
    if (id != tokens.row) {
      out.push_back(id);
      continue;
    }
    PromptImage& image = (*images)[next++];
    image.first = static_cast<int32_t>(out.size());
    const text::ImageGrid grid = RowGrid(input, image);
    for (int32_t line = 0; line < grid.rows; ++line) {
      out.insert(out.end(), static_cast<size_t>(grid.columns), tokens.row);
      if (tokens.has_line_ends()) out.push_back(line + 1 < grid.rows ? tokens.line_end : tokens.end);
    }
  }
  *prompt = std::move(out);
  return absl::OkStatus();
}

int64_t NumRows(const ImageInput& input, const PromptImage& image) {
  const text::ImageGrid grid = RowGrid(input, image);
  return int64_t{grid.rows} * grid.columns;
}

void AppendSpans(const ImageInput& input, const PromptImage& image, std::vector<engine::PromptRows::Span>* spans) {
  const text::ImageGrid grid = RowGrid(input, image);
  if (!input.tokens.has_line_ends()) {
    spans->push_back({image.first, grid.rows * grid.columns, input.rotates_by_place ? grid.columns : 0});
    return;
  }
  for (int32_t line = 0; line < grid.rows; ++line) {
    spans->push_back({image.first + line * (grid.columns + 1), grid.columns});
  }
}

engine::Digest DigestOf(const ImageInput& input, std::string_view salt, const PromptImage& image) {
  const engine::Digest of_salt = input.hash(salt.data(), salt.size(), "s", 1);
  return input.hash(of_salt.data(), sizeof(of_salt), image.file->data(), image.file->size());
}

void SetRowTokens(ImageInput* input, const PromptImage& image, const engine::Digest& digest,
                  std::vector<engine::TokenId>* prompt) {
  std::vector<engine::PromptRows::Span> spans;
  AppendSpans(*input, image, &spans);
  const engine::TokenId id = engine::kFirstRowToken | input->store.NumberOf(digest);
  for (const engine::PromptRows::Span& span : spans) std::fill_n(prompt->begin() + span.first, span.count, id);
}

}  // namespace dunlin::server

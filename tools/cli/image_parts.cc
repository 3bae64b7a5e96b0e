// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/image_parts.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/base/bounded_read.h"

namespace dunlin::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kUrlHead[] = "data:image;base64,";

v1::ContentPart PartOf(std::string image) {
  v1::ContentPart part;
  part.set_type("image");
  part.set_image(std::move(image));
  return part;
}

// The text of {"image_url": {"url": TEXT}} or {"image_url": TEXT}; null: there is none.
const std::string* UrlOf(const Json& part) {
  const auto member = part.find("image_url");
  if (member == part.end()) return nullptr;
  if (!member->is_object()) return member->get_ptr<const std::string*>();
  const auto url = member->find("url");
  return url == member->end() ? nullptr : url->get_ptr<const std::string*>();
}

}  // namespace

absl::StatusOr<v1::ContentPart> ImageOfFile(const char* option, const std::string& path) {
  absl::StatusOr<std::string> bytes = engine::ReadRegularFile(path, engine::kMaxNamedTextBytes);
  if (bytes.ok()) return PartOf(*std::move(bytes));
  return absl::InvalidArgumentError(absl::StrCat(option, ": ", path, ": ", bytes.status().message()));
}

v1::ChatMessage UserMessage(std::vector<v1::ContentPart> images, std::string text) {
  v1::ChatMessage message;
  message.set_role("user");
  if (images.empty()) {
    message.set_content(std::move(text));
    return message;
  }
  for (v1::ContentPart& image : images) *message.add_parts() = std::move(image);
  v1::ContentPart* const part = message.add_parts();
  part->set_type("text");
  part->set_text(std::move(text));
  return message;
}

absl::StatusOr<v1::ContentPart> ImageOfJson(const Json& part) {
  const std::string* const url = UrlOf(part);
  const absl::string_view text = url == nullptr ? absl::string_view() : *url;
  const size_t comma = std::min(text.find(','), text.size());
  std::string bytes;
  const bool is_data =
      absl::StartsWithIgnoreCase(text, "data:") && absl::EndsWithIgnoreCase(text.substr(0, comma), ";base64");
  if (is_data && comma < text.size() && absl::Base64Unescape(text.substr(comma + 1), &bytes)) {
    return PartOf(std::move(bytes));
  }
  return absl::InvalidArgumentError("--messages has an image_url that is no data: URL with base64");
}

Json ImageJson(const v1::ContentPart& part) {
  return {{"type", "image_url"}, {"image_url", {{"url", absl::StrCat(kUrlHead, absl::Base64Escape(part.image()))}}}};
}

void ShortenImages(Json* messages) {
  for (Json& message : *messages) {
    const auto content = message.find("content");
    if (content == message.end() || !content->is_array()) continue;
    for (Json& part : *content) {
      const std::string* const url = UrlOf(part);
      if (url != nullptr) part["image_url"]["url"] = absl::StrCat(kUrlHead, "... (", url->size(), " characters)");
    }
  }
}

}  // namespace dunlin::cli

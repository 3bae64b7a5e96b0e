// SPDX-License-Identifier: Apache-2.0
#include "server/json/image_data.h"

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/base/string_view.h"

namespace dunlin::server {
namespace {

constexpr std::string_view kDataScheme = "data:";
constexpr char kBase64Mark[] = ";base64";
constexpr char kDataUrlWanted[] = "a data: URL with base64: the server opens no connections for a request";

// Schemes that an error may name: any other word before a colon could be a client's own.
constexpr std::string_view kOtherSchemes[] = {"http", "https", "file", "ftp", "blob", "s3", "gs"};

// The alphabet, its padding, and white space.
constexpr auto kBase64Bytes = [] {
  std::array<bool, 256> known{};
  for (const unsigned char c :
       std::string_view("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/= \t\r\n"))
    known[c] = true;
  return known;
}();

text::ChatPart EmptyPart() {
  return {.type = "image", .text = ""};
}

// Of the bytes of the value's string from `first` on.
text::ChatPart DecodedFrom(const JsonValue& value, std::string_view text, size_t first) {
  const std::string_view code = text.substr(first);
  const auto* const other =
      std::find_if(code.begin(), code.end(), [](char c) { return !kBase64Bytes[static_cast<unsigned char>(c)]; });
  auto image = std::make_shared<std::string>();
  text::ChatPart part = EmptyPart();
  if (other != code.end()) {
    value.Fail(absl::StrCat("is not base64: error at byte ", first + static_cast<size_t>(other - code.begin()) + 1),
               "");
  } else if (!absl::Base64Unescape(engine::AbslView(code), image.get())) {
    value.Fail("is not base64: it is cut off, or padded where it does not end", "");
  } else if (image->empty()) {
    value.Fail("is an empty image", "the bytes of an image file");
  } else {
    part.image = std::move(image);
  }
  return part;
}

std::string WhatIsNoDataUrl(std::string_view url) {
  for (const std::string_view scheme : kOtherSchemes) {
    if (url.size() > scheme.size() && url[scheme.size()] == ':' &&
        absl::StartsWithIgnoreCase(engine::AbslView(url), engine::AbslView(scheme))) {
      return absl::StrCat("is a URL of the scheme ", engine::AbslView(scheme));
    }
  }
  return "is no data: URL";
}

}  // namespace

text::ChatPart ImageOfBase64(const JsonValue& text) {
  if (!text.ExpectText()) return EmptyPart();
  return DecodedFrom(text, *text.json().get_ptr<const std::string*>(), 0);
}

text::ChatPart ImageOfUrl(const JsonValue& url) {
  text::ChatPart part = EmptyPart();
  if (!url.ExpectText()) return part;
  const std::string_view text = *url.json().get_ptr<const std::string*>();
  if (!absl::StartsWithIgnoreCase(engine::AbslView(text), engine::AbslView(kDataScheme))) {
    url.Fail(WhatIsNoDataUrl(text), kDataUrlWanted);
    return part;
  }
  const size_t comma = std::min(text.find(','), text.size());
  if (comma == text.size() || !absl::EndsWithIgnoreCase(engine::AbslView(text.substr(0, comma)), kBase64Mark)) {
    url.Fail("is a data: URL without base64", "data:image/png;base64,...");
    return part;
  }
  return DecodedFrom(url, text, comma + 1);
}

}  // namespace dunlin::server

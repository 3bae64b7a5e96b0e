// SPDX-License-Identifier: Apache-2.0
#include "tests/text/images/golden_images.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>

#include "absl/strings/escaping.h"

namespace dunlin::text {
namespace {

[[noreturn]] void FailGolden(const std::string& what) {
  std::fprintf(stderr, "golden images: %s\n", what.c_str());
  std::abort();
}

}  // namespace

const nlohmann::json& ImageGoldens(const std::string& file) {
  static auto* read = new std::map<std::string, nlohmann::json>;
  if (!read->contains(file)) {
    std::ifstream stream(DUNLIN_SOURCE_DIR "/tests/golden/images/" + file);
    if (!stream) FailGolden(file);
    (*read)[file] = nlohmann::json::parse(stream);
  }
  return (*read)[file];
}

std::string FromBase64(const nlohmann::json& text) {
  std::string bytes;
  if (!absl::Base64Unescape(text.get<std::string>(), &bytes)) FailGolden("not base64");
  return bytes;
}

std::vector<uint8_t> PixelsOf(const nlohmann::json& text) {
  const std::string bytes = FromBase64(text);
  return {bytes.begin(), bytes.end()};
}

Image ImageOf(const nlohmann::json& object) {
  return {.size = {.width = object["width"], .height = object["height"]}, .rgb = PixelsOf(object["rgb"])};
}

std::string GoldenFile(std::string_view name) {
  for (const nlohmann::json& row : ImageGoldens("decode.json")) {
    if (row["name"] == name) return FromBase64(row["file"]);
  }
  FailGolden(std::string(name));
}

int MaxDifference(const std::vector<uint8_t>& a, const std::vector<uint8_t>& b) {
  if (a.size() != b.size()) return 256;
  int largest = 0;
  for (size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::abs(int{a[i]} - int{b[i]}));
  return largest;
}

}  // namespace dunlin::text

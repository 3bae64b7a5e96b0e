// SPDX-License-Identifier: Apache-2.0
// The goldens of tests/golden/images: files, and what Pillow and transformers make of them.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "text/images/image.h"

namespace dunlin::text {

inline constexpr ImageLimits kManyPixels = {.max_pixels = 1'000'000};

// decode.json, resize.json or processor.json. A missing or broken file ends the program with a message.
const nlohmann::json& ImageGoldens(const std::string& file);

std::string FromBase64(const nlohmann::json& text);
std::vector<uint8_t> PixelsOf(const nlohmann::json& text);

// Of an object with width, height and rgb.
Image ImageOf(const nlohmann::json& object);

// The bytes of the file of this name in decode.json.
std::string GoldenFile(std::string_view name);

// The largest difference of two images of one size, in levels.
int MaxDifference(const std::vector<uint8_t>& a, const std::vector<uint8_t>& b);

}  // namespace dunlin::text

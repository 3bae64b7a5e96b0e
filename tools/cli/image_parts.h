// SPDX-License-Identifier: Apache-2.0
// Images of a chat's messages: from files, and as the data: URLs that JSON of messages has them in. Stateless.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "dunlin/v1/generation.pb.h"

namespace dunlin::cli {

// The image in a file. What it holds is for the server to check. Errors: INVALID_ARGUMENT with the option's name for a
// file that cannot be read, or is not a regular one.
absl::StatusOr<v1::ContentPart> ImageOfFile(const char* option, const std::string& path);

// A message of the user: the images, then the text.
v1::ChatMessage UserMessage(std::vector<v1::ContentPart> images, std::string text);

// OpenAI's part {"type": "image_url", "image_url": {"url": "data:image/png;base64,..."}}, or with the URL instead of
// the object. Errors: INVALID_ARGUMENT for any other URL.
absl::StatusOr<v1::ContentPart> ImageOfJson(const nlohmann::ordered_json& part);

// The same the other way; ImageOfJson reads it back.
nlohmann::ordered_json ImageJson(const v1::ContentPart& part);

// Replaces the URLs of images that ImageJson wrote into messages by their lengths, for people to read.
void ShortenImages(nlohmann::ordered_json* messages);

}  // namespace dunlin::cli

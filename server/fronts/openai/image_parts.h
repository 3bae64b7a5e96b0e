// SPDX-License-Identifier: Apache-2.0
// Images in a message, in the form of each API, to parts of a chat. Their files come within the body, in base64.
// Errors, which are recorded: as server/json/image_data.h; a URL or a file elsewhere. Pure functions, any thread.
#pragma once

#include "server/json/json_value.h"
#include "text/chat_template.h"

namespace dunlin::server {

// Of a chat completion: {"type": "image_url", "image_url": {"url", "detail"}}; vLLM's clients give a string instead of
// the object.
text::ChatPart ReadImageUrlPart(const JsonValue& part);

// Of a response: {"type": "input_image", "image_url": "data:...", "detail"}.
text::ChatPart ReadInputImagePart(const JsonValue& part);

// Anthropic's: {"type": "image", "source": {"type": "base64", "media_type", "data"}}.
text::ChatPart ReadImageBlock(const JsonValue& block);

}  // namespace dunlin::server

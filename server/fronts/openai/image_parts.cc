// SPDX-License-Identifier: Apache-2.0
#include "server/fronts/openai/image_parts.h"

#include "server/json/field_table.h"
#include "server/json/image_data.h"

namespace dunlin::server {
namespace {

using V = JsonValue;

// A model's own processor says in what resolution it sees an image, so that none of these has an effect.
void ExpectDetail(const V& detail) {
  if (detail.is_null()) return;
  for (const char* known : {"auto", "low", "high", "original"}) {
    if (detail.json() == known) return;
  }
  detail.FailName("detail", "\"auto\", \"low\", \"high\" or \"original\"");
}

}  // namespace

text::ChatPart ReadImageUrlPart(const JsonValue& part) {
  part.IgnoreAllBut("type image_url cache_control prompt_cache_breakpoint");
  const V image = part.At("image_url");
  if (!image.is_object()) return ImageOfUrl(image);
  image.IgnoreAllBut("url detail");
  ExpectDetail(image.At("detail"));
  return ImageOfUrl(image.At("url"));
}

text::ChatPart ReadInputImagePart(const JsonValue& part) {
  part.IgnoreAllBut("type image_url detail file_id cache_control prompt_cache_breakpoint");
  ExpectDetail(part.At("detail"));
  const V file_id = part.At("file_id");
  if (!file_id.is_null()) RefuseField(file_id, "no files are stored; image_url takes a data: URL", "");
  return ImageOfUrl(part.At("image_url"));
}

text::ChatPart ReadImageBlock(const JsonValue& block) {
  block.IgnoreAllBut("type source cache_control");
  const V source = block.At("source");
  if (!source.ExpectObject()) return {};
  const V type = source.At("type");
  if (type.json() != "base64") {
    type.FailName("source", "\"base64\": the server opens no connections for a request, and no files are stored");
    return {};
  }
  source.IgnoreAllBut("type media_type data");
  return ImageOfBase64(source.At("data"));
}

}  // namespace dunlin::server

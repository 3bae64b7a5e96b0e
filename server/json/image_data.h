// SPDX-License-Identifier: Apache-2.0
// Images in the strings of request bodies: base64 (RFC 4648), alone or in data: URLs (RFC 2397). What kind of file one
// is, its decoder tells by the bytes: a URL's media type is not read. Pure functions, any thread.
#pragma once

#include "server/json/json_value.h"
#include "text/chat_template.h"

namespace dunlin::server {

// A part of type "image" whose file the string is. Line breaks, spaces and missing padding are tolerated. After an
// error, which is recorded, the part has no image. Errors: another character, with its place; an end that is cut off;
// nothing at all.
text::ChatPart ImageOfBase64(const JsonValue& text);

// The same of a URL, "data:image/png;base64,...". Errors besides: a data: URL without ";base64"; a URL of any other
// scheme, and what is none: the server opens neither connections nor files that a request names.
text::ChatPart ImageOfUrl(const JsonValue& url);

}  // namespace dunlin::server

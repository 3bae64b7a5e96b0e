// SPDX-License-Identifier: Apache-2.0
// What POST /tokenize, /detokenize and /v1/messages/count_tokens do on the text pool: a body to a document, through the
// serving core. Pure functions of their arguments; any thread.
#pragma once

#include "server/http_calls/http_text_call.h"

namespace dunlin::server {

extern const TextWork kTokenizeWork;
extern const TextWork kDetokenizeWork;
extern const TextWork kCountTokensWork;

}  // namespace dunlin::server

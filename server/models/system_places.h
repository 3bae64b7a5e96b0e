// SPDX-License-Identifier: Apache-2.0
// Where a chat template takes messages of the role system. Pure function, any thread; renders, so not on a thread that
// may not block.
#pragma once

#include <cstdint>

#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace dunlin::server {

enum class SystemPlaces : uint8_t {
  kAnywhere,
  kFirst,    // as the first message alone
  kNowhere,  // the template raises, or leaves its text out
};

// What the template makes of small chats.
SystemPlaces SystemPlacesOf(const text::ChatTemplate& chat_template, const text::Tokenizer& tokenizer);

}  // namespace dunlin::server

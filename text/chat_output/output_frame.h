// SPDX-License-Identifier: Apache-2.0
// What a model's whole output is made of, for the tables of forms. Constant data.
#pragma once

#include <cstdint>
#include <string_view>

namespace dunlin::text {

enum class OutputFrame : uint8_t {
  kNone,        // reasoning, then text and calls
  kChannels,    // messages on channels: gpt-oss
  kRecipients,  // messages to recipients: Muse Glimmer
};

// Around the answer of an output without messages, which may be without them. Empty: the form has none.
struct AnswerTags {
  std::string_view open = {};
  std::string_view close = {};
};

}  // namespace dunlin::text

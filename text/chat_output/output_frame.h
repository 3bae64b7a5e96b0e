// SPDX-License-Identifier: Apache-2.0
// What a model's whole output is made of, for the tables of forms. Constant data.
#pragma once

#include <cstdint>

namespace dunlin::text {

enum class OutputFrame : uint8_t {
  kNone,        // reasoning, then text and calls
  kChannels,    // messages on channels: gpt-oss
  kRecipients,  // messages to recipients: Muse Glimmer
};

}  // namespace dunlin::text

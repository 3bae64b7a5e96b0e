// SPDX-License-Identifier: Apache-2.0
// A stage of a chat's output: text goes in as it is decoded, in pieces of any size, and what it is comes out.
// Plain interface. Thread rule: one thread at a time.
#pragma once

#include <string_view>

namespace dunlin::text {

class OutputStage {
 public:
  virtual ~OutputStage() = default;
  virtual void Push(std::string_view text) = 0;
  // The output ends: what was held back is sent. Called once.
  virtual void Finish() = 0;
  // The output ends here: the one call that is wanted is complete. What is pushed further is dropped.
  virtual bool done() const = 0;
};

}  // namespace dunlin::text

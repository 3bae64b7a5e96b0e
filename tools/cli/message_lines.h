// SPDX-License-Identifier: Apache-2.0
// Makes messages of lines of input. A line is a message, but a line that ends in a backslash goes on in the next one,
// and a block between """ is one message with its line breaks. An even number of backslashes at a line's end is text.
// Pure.
#pragma once

#include <string>

namespace dunlin::cli {

class MessageLines {
 public:
  // Whether the message is complete with this line.
  bool Add(const std::string& line);
  // Whether a message has begun that is not complete.
  bool open() const { return begun_; }
  // Whether the last message was a block: text whatever it begins with.
  bool block() const { return block_; }
  // The message, complete or not; the next line begins another.
  std::string Take();

 private:
  bool AddToBlock(const std::string& line);

  std::string text_;
  bool begun_ = false;
  bool block_ = false;
};

}  // namespace dunlin::cli

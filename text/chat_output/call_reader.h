// SPDX-License-Identifier: Apache-2.0
// Reads the calls that follow a marker, byte by byte; each form of tool calls has one. What a reader finds goes to the
// CallWriter, which belongs to the parser that feeds the reader.
// Owner: ToolCallParser, for the calls of one marker. Thread rule: one thread at a time.
#pragma once

#include <string>
#include <string_view>

#include "text/chat_output/scan.h"

namespace dunlin::text {

class CallWriter {
 public:
  virtual ~CallWriter() = default;
  // The id that the model gives the call whose name follows; without, it has none. Not empty.
  virtual void Id(std::string_view id) = 0;
  // The call's name; arguments may come before it, and wait. False: no call has such a name, and the reader returns
  // kInvalid.
  virtual bool Name(std::string_view name) = 0;
  // A piece of the arguments, JSON.
  virtual void Arguments(std::string_view json) = 0;
  // The call is complete with the byte that is being read; its arguments are {} if there were none.
  virtual void End() = 0;
};

class CallReader {
 public:
  virtual ~CallReader() = default;
  // kMore: taken. kDone: taken, and the calls of this marker are over. kInvalid: not taken; what was read since the
  // last complete call is text. kDoneBefore is not returned.
  virtual Scan Take(char c, CallWriter* calls) = 0;
  // Whether an output that ends here leaves nothing unfinished since the last complete call.
  virtual bool MayEnd() const = 0;
};

}  // namespace dunlin::text

// SPDX-License-Identifier: Apache-2.0
// Parses server-sent events from a byte stream that may be split anywhere; yields only the data of each event.
// Source: WHATWG HTML, "Server-sent events", 9.2.6 (lines end in LF, CRLF or CR; a line that starts with ':' is a
// comment; several data lines of an event are joined with LF; an event ends with an empty line).
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace dunlin::tools::load {

class SseParser {
 public:
  static constexpr size_t kMaxEventBytes = 1 << 20;

  // Appends the data of each event that ends within these bytes. False when an event is longer than kMaxEventBytes:
  // the stream is unusable then.
  bool Feed(std::string_view bytes, std::vector<std::string>* events);

 private:
  void EndLine(std::vector<std::string>* events);

  std::string line_;
  std::string data_;
  bool has_data_ = false;
  bool after_cr_ = false;  // an LF that follows belongs to the same line end
};

}  // namespace dunlin::tools::load

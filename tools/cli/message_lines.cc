// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/message_lines.h"

#include <string_view>
#include <utility>

namespace dunlin::cli {
namespace {

constexpr std::string_view kQuotes = "\"\"\"";

bool EndsWith(const std::string& line, std::string_view end) {
  return line.size() >= end.size() && line.compare(line.size() - end.size(), end.size(), end) == 0;
}

bool EndsInBackslash(const std::string& line) {
  const size_t last_other = line.find_last_not_of('\\');
  const size_t count = line.size() - (last_other == std::string::npos ? 0 : last_other + 1);
  return count % 2 == 1;
}

void DropLastBreak(std::string* text) {
  if (!text->empty() && text->back() == '\n') text->pop_back();
}

}  // namespace

bool MessageLines::AddToBlock(const std::string& line) {
  if (!EndsWith(line, kQuotes)) {
    text_ += line + "\n";
    return false;
  }
  text_ += line.substr(0, line.size() - kQuotes.size());
  if (line.size() == kQuotes.size()) DropLastBreak(&text_);
  return true;
}

bool MessageLines::Add(const std::string& line) {
  bool complete = false;
  if (!begun_ && line.rfind(kQuotes, 0) == 0) {
    block_ = true;
    const std::string rest = line.substr(kQuotes.size());
    complete = !rest.empty() && AddToBlock(rest);
  } else if (begun_ && block_) {
    complete = AddToBlock(line);
  } else {
    if (!begun_) block_ = false;
    complete = !EndsInBackslash(line);
    text_ += complete ? line : line.substr(0, line.size() - 1) + "\n";
  }
  begun_ = !complete;
  return complete;
}

std::string MessageLines::Take() {
  if (begun_) DropLastBreak(&text_);
  begun_ = false;
  return std::exchange(text_, std::string());
}

}  // namespace dunlin::cli

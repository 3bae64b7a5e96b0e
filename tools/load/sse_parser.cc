// SPDX-License-Identifier: Apache-2.0
#include "tools/load/sse_parser.h"

#include <utility>

namespace dunlin::tools::load {

bool SseParser::Feed(std::string_view bytes, std::vector<std::string>* events) {
  for (const char c : bytes) {
    const bool second_half = c == '\n' && after_cr_;
    after_cr_ = c == '\r';
    if (second_half) continue;
    if (c == '\n' || c == '\r') {
      EndLine(events);
    } else {
      line_.push_back(c);
    }
    if (line_.size() + data_.size() > kMaxEventBytes) return false;
  }
  return true;
}

void SseParser::EndLine(std::vector<std::string>* events) {
  const std::string line = std::exchange(line_, {});
  if (line.empty()) {
    if (std::exchange(has_data_, false)) events->push_back(std::exchange(data_, {}));
    return;
  }
  constexpr std::string_view kField = "data:";
  if (line.rfind(kField, 0) != 0) return;
  std::string_view value = std::string_view(line).substr(kField.size());
  if (!value.empty() && value.front() == ' ') value.remove_prefix(1);
  if (has_data_) data_.push_back('\n');
  data_.append(value);
  has_data_ = true;
}

}  // namespace dunlin::tools::load

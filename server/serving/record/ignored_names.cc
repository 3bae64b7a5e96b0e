// SPDX-License-Identifier: Apache-2.0
#include "server/serving/record/ignored_names.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_join.h"

namespace dunlin::server {
namespace {

constexpr std::string_view kMarks = "_-.[]=/*";

char Safe(char character) {
  const bool plain =
      absl::ascii_isalnum(static_cast<unsigned char>(character)) || kMarks.find(character) != std::string_view::npos;
  return plain ? character : '?';
}

}  // namespace

void IgnoredNames::Add(std::string_view name) {
  std::string safe(name.substr(0, kMaxNameBytes));
  std::transform(safe.begin(), safe.end(), safe.begin(), &Safe);
  if (safe.empty() || std::find(names_.begin(), names_.end(), safe) != names_.end()) return;
  if (names_.size() == kMaxNames) {
    more_ = true;
    return;
  }
  names_.push_back(std::move(safe));
}

std::string IgnoredNames::List() const {
  return absl::StrJoin(names_, ", ") + (more_ ? ", ..." : "");
}

}  // namespace dunlin::server

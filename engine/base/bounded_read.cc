// SPDX-License-Identifier: Apache-2.0
#include "engine/base/bounded_read.h"

#include "absl/strings/str_cat.h"

namespace dunlin::engine {

absl::StatusOr<std::string> ReadAtMost(size_t limit_bytes, std::istream* in) {
  constexpr size_t kPieceBytes = size_t{64} << 10;
  std::string text;
  while (*in && text.size() <= limit_bytes) {
    const size_t size = text.size();
    text.resize(size + kPieceBytes);
    in->read(text.data() + size, kPieceBytes);
    text.resize(size + static_cast<size_t>(in->gcount()));
  }
  if (text.size() > limit_bytes) {
    return absl::InvalidArgumentError(absl::StrCat("has more than ", limit_bytes, " bytes"));
  }
  if (!in->eof()) return absl::DataLossError("cannot be read");
  return text;
}

}  // namespace dunlin::engine

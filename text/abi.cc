// SPDX-License-Identifier: Apache-2.0
#include "text/abi.h"

#include <algorithm>

#include "absl/strings/string_view.h"

namespace dunlin::text::text_abi {

absl::Status ToStatus(int32_t code, const dunlin_text_error& error) {
  if (code == 0) return absl::OkStatus();
  return absl::Status(static_cast<absl::StatusCode>(code), error.message);
}

int32_t ToError(const absl::Status& status, dunlin_text_error* error) {
  const absl::string_view message = status.message();
  size_t size = std::min(message.size(), sizeof(error->message) - 1);
  const auto continues = [&](size_t at) { return (static_cast<unsigned char>(message[at]) & 0xC0U) == 0x80U; };
  while (size > 0 && size < message.size() && continues(size)) --size;
  std::copy_n(message.data(), size, error->message);
  error->message[size] = '\0';
  return status.raw_code();
}

}  // namespace dunlin::text::text_abi

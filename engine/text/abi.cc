// SPDX-License-Identifier: Apache-2.0
#include "engine/text/abi.h"

namespace dunlin::engine::text_abi {

absl::Status ToStatus(int32_t code, const dunlin_text_error& error) {
  if (code == 0) return absl::OkStatus();
  return absl::Status(static_cast<absl::StatusCode>(code), error.message);
}

}  // namespace dunlin::engine::text_abi

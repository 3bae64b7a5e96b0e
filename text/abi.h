// SPDX-License-Identifier: Apache-2.0
// C++ side of the Rust library's C ABI: its statuses and buffers as absl::Status and owned C++ values.
// For the .cc files of text only. Thread rule: plain values, one thread each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "engine/request/types.h"
#include "text/rust/include/dunlin_text.h"

namespace dunlin::text::text_abi {

// code: the number of an absl::StatusCode; 0 is OK.
absl::Status ToStatus(int32_t code, const dunlin_text_error& error);

// The other way: the code, and the message as far as it fits, cut between two characters.
int32_t ToError(const absl::Status& status, dunlin_text_error* error);

inline const uint8_t* Data(std::string_view text) {
  return reinterpret_cast<const uint8_t*>(text.data());
}

// Bytes that the library allocated; freed at the end of the scope.
class Bytes {
 public:
  Bytes() = default;
  ~Bytes() { dunlin_text_bytes_free(&bytes_); }
  Bytes(const Bytes&) = delete;
  Bytes& operator=(const Bytes&) = delete;

  dunlin_text_bytes* out() { return &bytes_; }
  std::string Take() const { return {reinterpret_cast<const char*>(bytes_.data), bytes_.size}; }
  std::vector<uint8_t> TakeValues() const { return {bytes_.data, bytes_.data + bytes_.size}; }

 private:
  dunlin_text_bytes bytes_{};
};

// Token ids that the library allocated; freed at the end of the scope.
class Ids {
 public:
  Ids() = default;
  ~Ids() { dunlin_text_ids_free(&ids_); }
  Ids(const Ids&) = delete;
  Ids& operator=(const Ids&) = delete;

  dunlin_text_ids* out() { return &ids_; }
  std::vector<engine::TokenId> Take() const { return {ids_.data, ids_.data + ids_.size}; }

 private:
  dunlin_text_ids ids_{};
};

}  // namespace dunlin::text::text_abi

// SPDX-License-Identifier: Apache-2.0
// Writes MessagePack: nil, integers, floats, texts and the heads of arrays, whose elements follow. Owner: the caller.
// Source: the MessagePack specification, "Formats".
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace dunlin::server {

class MessagePack {
 public:
  void Nil() { Byte(0xC0); }
  void Unsigned(uint64_t value) {
    if (value < 0x80) return Byte(static_cast<uint8_t>(value));
    Sized(value, {0xCC, 0xCD, 0xCE, 0xCF});
  }
  void Float(double value) {
    Byte(0xCB);
    BigEndian(std::bit_cast<uint64_t>(value), 8);
  }
  // REQUIRES: UTF-8.
  void Text(std::string_view text) {
    if (text.size() < 32) {
      Byte(static_cast<uint8_t>(0xA0 | text.size()));
    } else {
      Sized(text.size(), {0xD9, 0xDA, 0xDB, 0xDB});
    }
    out_.append(text);
  }
  void Array(size_t size) {
    if (size < 16) return Byte(static_cast<uint8_t>(0x90 | size));
    Byte(size <= 0xFFFF ? 0xDC : 0xDD);
    BigEndian(size, size <= 0xFFFF ? 2 : 4);
  }
  // What has been written; empty afterwards.
  std::string Take() { return std::exchange(out_, {}); }

 private:
  struct Heads {
    uint8_t of_1, of_2, of_4, of_8;  // by the bytes of the number that follows
  };

  void Byte(uint8_t byte) { out_.push_back(static_cast<char>(byte)); }
  void BigEndian(uint64_t value, int bytes) {
    for (int shift = 8 * (bytes - 1); shift >= 0; shift -= 8) Byte(static_cast<uint8_t>(value >> shift));
  }
  void Sized(uint64_t value, Heads heads) {
    if (value <= 0xFF) return Headed(heads.of_1, value, 1);
    if (value <= 0xFFFF) return Headed(heads.of_2, value, 2);
    if (value <= 0xFFFFFFFF) return Headed(heads.of_4, value, 4);
    Headed(heads.of_8, value, 8);
  }
  void Headed(uint8_t head, uint64_t value, int bytes) {
    Byte(head);
    BigEndian(value, bytes);
  }

  std::string out_;
};

}  // namespace dunlin::server

// SPDX-License-Identifier: Apache-2.0
// Arithmetic on sizes that come from files. Overflow is sticky, so that one check at the end is enough.
#pragma once

#include <cstdint>

namespace dunlin::engine {

// An unsigned 64-bit size. Any operation that overflows, and any operation on an overflowed value, gives !ok().
class CheckedU64 {
 public:
  constexpr CheckedU64(uint64_t value) : value_(value) {}  // NOLINT: implicit, so that formulas read as formulas

  constexpr bool ok() const { return ok_; }
  // REQUIRES: ok().
  constexpr uint64_t value() const { return value_; }

  friend constexpr CheckedU64 operator+(CheckedU64 a, CheckedU64 b) {
    CheckedU64 sum(0);
    sum.ok_ = !__builtin_add_overflow(a.value_, b.value_, &sum.value_) && a.ok_ && b.ok_;
    return sum;
  }
  friend constexpr CheckedU64 operator*(CheckedU64 a, CheckedU64 b) {
    CheckedU64 product(0);
    product.ok_ = !__builtin_mul_overflow(a.value_, b.value_, &product.value_) && a.ok_ && b.ok_;
    return product;
  }
  CheckedU64& operator+=(CheckedU64 other) { return *this = *this + other; }
  CheckedU64& operator*=(CheckedU64 other) { return *this = *this * other; }

  // Rounded up to a multiple of `alignment`, a power of two.
  constexpr CheckedU64 AlignedUp(uint64_t alignment) const {
    CheckedU64 padded = *this + CheckedU64(alignment - 1);
    padded.value_ &= ~(alignment - 1);
    return padded;
  }

  friend constexpr bool operator==(CheckedU64 a, uint64_t b) { return a.ok_ && a.value_ == b; }

 private:
  uint64_t value_;
  bool ok_ = true;
};

}  // namespace dunlin::engine

// SPDX-License-Identifier: Apache-2.0
// A model small enough to reason about: the "key and value" of a position is a hash of everything up to it, the next
// token a hash over all of them. So a wrong page, a stale page or a wrong prefix hit gives a wrong token.
#pragma once

#include <cstdint>

#include "engine/request/kv_groups.h"
#include "engine/request/types.h"

namespace dunlin::simulation {

using Kv = uint64_t;
inline constexpr Kv kNan = ~uint64_t{0};
inline constexpr Kv kNothing = 0;  // before position 0

// What position 0 follows in a model of these weights.
constexpr Kv BeforeFirst(uint64_t version) {
  return version == 0 ? kNothing : version << 32;
}

// A request with this bit in its seed writes NaN at the position in the seed's low bits.
inline constexpr uint64_t kPoison = uint64_t{1} << 63;
constexpr bool IsPoisonedAt(uint64_t seed, int32_t position) {
  return seed == (kPoison | static_cast<uint64_t>(position));
}

constexpr uint64_t Mix(uint64_t a, uint64_t b) {  // splitmix64's finaliser
  uint64_t x = a * 0x9E3779B97F4A7C15U + b + 0xD1B54A32D192ED03U;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9U;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBU;
  return x ^ (x >> 31);
}

// Depends on tokens, position and profile alone, and on a device whose decode differs from its prefill on that: pages
// may be shared by requests that agree in those.
inline Kv KvOf(Kv previous, engine::TokenId token, int32_t position, const engine::ExecutionProfile& profile,
               bool decoded = false) {
  if (previous == kNan) return kNan;
  const auto kind = static_cast<uint64_t>(profile.attention_backend) * 8 + static_cast<uint64_t>(profile.precision) +
                    (decoded ? 32 : 0);
  return Mix(Mix(previous, static_cast<uint64_t>(token)), static_cast<uint64_t>(position) * 64 + kind) >> 1;
}

// What the page of a layer group holds of a position.
inline Kv OfGroup(Kv kv, int32_t group) {
  return group == 0 || kv == kNan ? kv : Mix(kv, static_cast<uint64_t>(group)) >> 1;
}

// The first key that a row reads in a group.
inline int32_t FirstKey(const engine::KvGroups& groups, int32_t group, int32_t position) {
  return groups.slides(group) ? groups.FirstRead(position) : 0;
}

// What attention reads: of every group its keys up to the row's own, in order.
inline uint64_t Attend(uint64_t so_far, Kv kv) {
  return so_far == kNan || kv == kNan ? kNan : Mix(so_far, kv) >> 1;
}

inline engine::TokenId Draw(uint64_t attended, uint64_t seed, int32_t vocab_size) {
  return static_cast<engine::TokenId>(Mix(attended, seed) % static_cast<uint64_t>(vocab_size));
}

// The same among tokens of which `allows` says that they may be drawn; -1 when there are none. Allocates nothing.
template <typename Allows>
engine::TokenId DrawAllowed(uint64_t attended, uint64_t seed, int32_t vocab_size, Allows allows) {
  uint64_t count = 0;
  for (engine::TokenId id = 0; id < vocab_size; ++id) count += allows(id) ? 1 : 0;
  if (count == 0) return -1;
  uint64_t chosen = Mix(attended, seed) % count;
  engine::TokenId id = 0;
  while (!allows(id) || chosen-- > 0) ++id;
  return id;
}

inline float ScoreOf(Kv kv) {
  return -static_cast<float>(kv % 1000);
}

}  // namespace dunlin::simulation

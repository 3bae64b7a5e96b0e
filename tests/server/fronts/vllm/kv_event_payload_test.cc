// SPDX-License-Identifier: Apache-2.0
// Expected bytes: Python's msgpack.packb of the same values.
#include "server/fronts/vllm/kv_event_payload.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "server/fronts/vllm/message_pack.h"

namespace dunlin::server {
namespace {

using engine::KvEvent;
using engine::KvEventKind;

std::string Hex(const std::string& bytes) {
  return absl::BytesToHexString(bytes);
}

KvEvent Stored(engine::KvBlockId block, engine::KvBlockId parent, std::vector<engine::TokenId> tokens,
               uint64_t domain = 0) {
  return {KvEventKind::kStored, block, parent, domain, std::move(tokens)};
}

TEST(MessagePackTest, WritesTheShortestFormOfEachSize) {
  MessagePack out;
  for (const uint64_t value : {0ULL, 127ULL, 128ULL, 255ULL, 256ULL, 65535ULL, 65536ULL, 4294967295ULL, 4294967296ULL,
                               18446744073709551615ULL}) {
    out.Unsigned(value);
  }
  EXPECT_EQ(Hex(out.Take()), "007fcc80ccffcd0100cdffffce00010000ceffffffffcf0000000100000000cfffffffffffffffff");
}

TEST(MessagePackTest, WritesTextsArraysFloatsAndNil) {
  MessagePack out;
  out.Text("kv");
  out.Text(std::string(32, 'a'));
  std::string letters;
  for (int i = 0; i < 32; ++i) letters += "61";
  EXPECT_EQ(Hex(out.Take()), "a26b76d920" + letters);
  out.Array(15);
  out.Array(16);
  out.Array(65536);
  out.Float(1.5);
  out.Nil();
  EXPECT_EQ(Hex(out.Take()), "9fdc0010dd00010000cb3ff8000000000000c0");
}

// [1.5, [["BlockStored", [1, 2], None, [10, 11, 12, 13], 2, None, "GPU"]], 0]
TEST(KvEventPayloadTest, ConsecutiveBlocksAreOneEvent) {
  engine::KvEventBatch batch;
  batch.events = {Stored(1, engine::kNoKvBlock, {10, 11}), Stored(2, 1, {12, 13})};
  EXPECT_EQ(Hex(KvEventPayload(batch, 1.5)),
            "93cb3ff80000000000009197ab426c6f636b53746f726564920102c0940a0b0c0d02c0a347505500");
}

// [0.0, [["BlockStored", [300], 2, [10, 11], 2, None, "GPU", None, [["domain:00000000000000ff"]]]], 0]
TEST(KvEventPayloadTest, AnotherDomainIsAnExtraKey) {
  engine::KvEventBatch batch;
  batch.events = {Stored(300, 2, {10, 11}, 255)};
  EXPECT_EQ(Hex(KvEventPayload(batch, 0)),
            "93cb00000000000000009199ab426c6f636b53746f72656491cd012c02920a0b02c0a3475055c09191b7646f6d61696e3a30303030"
            "30303030303030303030666600");
}

// [0.0, [["BlockRemoved", [1, 3], "GPU"], ["BlockStored", [4], None, [7], 1, None, "GPU"], ["BlockStored", [6], 5, [8],
// 1, None, "GPU"]], 0]
TEST(KvEventPayloadTest, WhatDoesNotFollowIsAnEventOfItsOwn) {
  engine::KvEventBatch batch;
  batch.events = {{KvEventKind::kRemoved, 1, engine::kNoKvBlock, 0, {}},
                  {KvEventKind::kRemoved, 3, engine::kNoKvBlock, 0, {}},
                  Stored(4, engine::kNoKvBlock, {7}),
                  Stored(6, 5, {8})};
  EXPECT_EQ(Hex(KvEventPayload(batch, 0)),
            "93cb00000000000000009393ac426c6f636b52656d6f766564920103a347505597ab426c6f636b53746f7265649104c0910701c0a3"
            "47505597ab426c6f636b53746f726564910605910801c0a347505500");
}

// [0.0, [["AllBlocksCleared"]], 0]
TEST(KvEventPayloadTest, AnEmptyCacheHasNoHashes) {
  engine::KvEventBatch batch;
  batch.events = {{KvEventKind::kCleared, engine::kNoKvBlock, engine::kNoKvBlock, 0, {}}};
  EXPECT_EQ(Hex(KvEventPayload(batch, 0)), "93cb00000000000000009191b0416c6c426c6f636b73436c656172656400");
}

}  // namespace
}  // namespace dunlin::server

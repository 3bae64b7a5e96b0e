// SPDX-License-Identifier: Apache-2.0
// A response of the portable variant has the same bits on every architecture: digests of its tokens and their log
// probabilities, as x86-64 has them. (Kernels alone: tests/kernels/cpu/portable_bits_test.cc.)
#include <gtest/gtest.h>

#include <bit>

#include "tests/integration/model/engine_client.h"
#include "tests/integration/model/test_model.h"

namespace dunlin::engine {
namespace {

// FNV-1a of token ids and the bits of log probabilities.
class ResponseDigest {
 public:
  void Add(const TokenOutput& token) {
    AddWord(static_cast<uint32_t>(token.token_id));
    AddWord(std::bit_cast<uint32_t>(token.logprob));
  }
  uint64_t value() const { return value_; }

 private:
  void AddWord(uint32_t word) { value_ = (value_ ^ word) * 0x100000001B3U; }
  uint64_t value_ = 0xCBF29CE484222325U;
};

uint64_t DigestOf(const Response& response) {
  ResponseDigest digest;
  for (const auto& [position, token] : response.prompt) digest.Add(token);
  for (const TokenOutput& token : response.tokens) digest.Add(token);
  return digest.value();
}

Request ScoredRequest(const ModelConfig& config, Precision precision) {
  Request request;
  for (TokenId token = 0; token < 20; ++token) request.prompt.push_back((token * 37 + 5) % config.vocab_size);
  request.profile.precision = precision;
  request.sampling.seed = 1;
  request.sampling.logprobs = 0;
  request.sampling.prompt_logprobs = 0;
  request.stopping.max_tokens = 12;
  request.stopping.ignore_eos = true;
  request.max_drafts = 0;
  return request;
}

TEST(PortableModelBits, TokensAndLogProbabilitiesOfEveryPrecision) {
  const struct {
    const char* name;
    std::string path;
    uint64_t digests[6];  // in the order of kAllPrecisions
  } rows[] = {
      {"llama_gqa",
       GoldenModelPath("llama_gqa"),
       {0x5AE06C0C33E64B93, 0x80612E55A9D2D2CD, 0xB7A96FE4757D96DB, 0x2533A4826F7D467B, 0x425A1DCA59C87E70,
        0x535F1D4D7B33CB03}},
      {"demo",
       SourcePath("models/demo"),
       {0x06180CB0D32D47F9, 0x25696752C7E7C5EA, 0xD4A757FCDF93DF28, 0x6F96BDDC1089A0FD, 0x3C445177BB52FCCB,
        0xA144B241E0FB61FD}},
  };
  for (const auto& row : rows) {
    const TestModel test = LoadTestModel(row.path, "portable", 2, kAllPrecisions);
    EngineClient client(test.model.get(), EngineOptions());
    ASSERT_EQ(std::size(row.digests), kAllPrecisions.size());
    for (size_t i = 0; i < kAllPrecisions.size(); ++i) {
      const Response response = client.Run(ScoredRequest(test.model->config(), kAllPrecisions[i]));
      ASSERT_EQ(response.tokens.size(), 12U);
      ASSERT_EQ(response.prompt.size(), 19U);
      EXPECT_EQ(DigestOf(response), row.digests[i])
          << std::hex << DigestOf(response) << ", " << row.name << ", " << kernels::Name(kAllPrecisions[i]);
    }
  }
}

}  // namespace
}  // namespace dunlin::engine

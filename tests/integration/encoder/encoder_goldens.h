// SPDX-License-Identifier: Apache-2.0
// Reads the goldens.json of an encoder; its format stands at the head of tests/golden/encoders/make_encoder_goldens.py.
#pragma once

#include <string>
#include <vector>

#include "engine/request/types.h"

namespace dunlin::engine {

struct GoldenInput {
  std::vector<TokenId> tokens;
  std::vector<int32_t> positions;
  std::vector<std::vector<float>> rows;  // hidden states of those positions
  std::vector<float> mean;
  std::vector<float> cls;
  std::vector<float> last;
  std::vector<float> mean_normalized;
};

struct GoldenText {
  std::string text;
  std::vector<TokenId> token_ids;
};

struct GoldenPair {
  std::string query;
  std::string document;
  std::vector<TokenId> token_ids;
  std::vector<int32_t> type_ids;
  std::vector<float> logits;
};

struct EncoderGoldens {
  std::vector<GoldenInput> inputs;  // ascending by length
  std::vector<GoldenText> texts;
  std::vector<GoldenPair> pairs;  // of a sequence classifier
};

// Every encoder of tests/golden/encoders, in order of name, and its directory.
std::vector<std::string> GoldenEncoderNames();
// Those whose goldens have pairs: the sequence classifiers.
std::vector<std::string> GoldenClassifierNames();
std::string GoldenEncoderPath(const std::string& name);
EncoderGoldens ReadEncoderGoldens(const std::string& name);

}  // namespace dunlin::engine

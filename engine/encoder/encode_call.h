// SPDX-License-Identifier: Apache-2.0
// One call to an encoder: many inputs in, one vector each out, or of images rows for their merged patches. The server
// creates it with memory for its vectors, the engine fills them, the sink takes it back: the engine thread allocates
// nothing for a call.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "engine/request/image_grid.h"
#include "engine/request/types.h"

namespace dunlin::engine {

// How the hidden states of an input become one vector.
enum class Pooling : uint8_t {
  kMean,  // of all its tokens, special ones included
  kCls,   // the first token's
  kLast,  // the last token's
};
inline constexpr Pooling kPoolings[] = {Pooling::kMean, Pooling::kCls, Pooling::kLast};

constexpr const char* Name(Pooling pooling) {
  switch (pooling) {
    case Pooling::kMean:
      return "mean";
    case Pooling::kCls:
      return "cls";
    case Pooling::kLast:
      return "last";
  }
  return "?";
}

struct EncodeRequest {
  std::vector<TokenId> tokens;   // of all inputs, one after another; each in [0, vocab_size)
  std::vector<int32_t> lengths;  // tokens of each input, >= 1, their sum tokens.size(); or patches of each image
  // Of an encoder of images, in place of tokens; pooling and normalize are not read, and dimensions is the model's
  // out_dim. grids: [lengths.size()], each of as many patches as its length.
  std::vector<ImageGrid> grids;
  // [sum of lengths, patch_features] of all images, one after another: the patches of an image in the order of PlaceOf,
  // the elements of a patch by channel, y and x.
  std::vector<float> patches;
  // Of pairs of texts: the first tokens of each input, which have token type 0; the others have 1. Empty: all have 0.
  std::vector<int32_t> first_lengths;  // [lengths.size()], each in [0, lengths[i]]
  // By the head of a sequence classifier: a vector is the logits of its input. dimensions is then the model's
  // num_labels, and pooling and normalize are not read.
  bool classify = false;
  Pooling pooling = Pooling::kMean;
  int32_t dimensions = 0;  // [1, hidden_dim]: so many leading elements of the pooled vector are kept
  bool normalize = false;  // to length 1, after truncation; a zero vector stays zero
  ExecutionProfile profile;
  TenantId tenant = kSharedTenant;
  TimeNs arrival = 0;
  TimeNs deadline = kNoDeadline;
};

struct EncodeCall {
  EncodeRequest request;
  // [lengths.size(), dimensions], or of images [sum of lengths / patches_per_row, dimensions], one after another; valid
  // only with kStop.
  std::vector<float> vectors;

  // Set by the engine before OnFinish.
  FinishReason reason = FinishReason::kStop;  // kStop: every vector is there
  TimeNs first_scheduled = 0;                 // 0 when it never was
  TimeNs finished = 0;
};

// Receives a call when it ends. Called on the engine thread; neither blocks nor calls the engine.
class EncodeSink {
 public:
  virtual ~EncodeSink() = default;
  // Exactly once for every submitted call.
  virtual void OnFinish(std::unique_ptr<EncodeCall> call) = 0;
};

}  // namespace dunlin::engine

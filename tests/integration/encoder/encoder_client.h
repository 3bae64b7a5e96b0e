// SPDX-License-Identifier: Apache-2.0
// Calls to an EncoderEngine that wait for their vectors.
#pragma once

#include <future>
#include <memory>
#include <vector>

#include "engine/encoder/encode_call.h"
#include "engine/encoder/encoder_engine.h"
#include "engine/model/model.h"
#include "engine/request/options.h"

namespace dunlin::engine {

// Hands a finished call over.
class WaitingSink : public EncodeSink {
 public:
  void OnFinish(std::unique_ptr<EncodeCall> call) override { done_.set_value(std::move(call)); }
  std::unique_ptr<EncodeCall> Wait() { return done_.get_future().get(); }

 private:
  std::promise<std::unique_ptr<EncodeCall>> done_;
};

// A call with room for its vectors, of images for the rows of an encoder with that spec.
std::unique_ptr<EncodeCall> MakeCall(EncodeRequest request, const ImageSpec& image = {});

class EncoderClient {
 public:
  // Dies when the memory cannot be had.
  EncoderClient(const Model* model, const EngineOptions& options);

  // Dies when the request is refused.
  std::shared_ptr<WaitingSink> Submit(const EncodeRequest& request);
  // Its vectors, [inputs, dimensions], or rows of images.
  std::vector<float> Run(const EncodeRequest& request);
  EncoderEngine& engine() { return *engine_; }

 private:
  const ImageSpec image_;
  std::unique_ptr<EncoderEngine> engine_;
};

}  // namespace dunlin::engine

// SPDX-License-Identifier: Apache-2.0
// The serving core over the models of tests/server/serving/test_models.h, and calls of it through a translator: what a
// client would read.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "absl/time/clock.h"
#include "server/fronts/ollama/generation_translator.h"
#include "server/fronts/ollama/vectors_translator.h"
#include "server/json/json_value.h"
#include "tests/server/serving/fake_front.h"
#include "tests/server/serving/test_models.h"

namespace dunlin::server::ollama {

class CoreFixture : public testing::Test {
 protected:
  CoreFixture() : models_(engine::EngineOptions()), core_({}, models_.repository(), &observer_, {}) { core_.Open(); }
  ~CoreFixture() override {
    core_.StartDraining(AdmissionRefusal::kDraining);
    EXPECT_TRUE(core_.WaitUntilIdle(absl::Now() + absl::Seconds(20)));
    models_.repository().StopEngines();
  }

  static CallFacts Facts() {
    return {.response = {.created = 1700000000, .version = "9.9.9", .cpu_variant = "avx2"},
            .created_at = "2023-11-14T22:13:20+00:00"};
  }

  // The body of the response: a document, a stream or an error.
  std::string Run(RequestTranslator* translator, const std::string& body) {
    ClientRequest request;
    if (absl::Status s = translator->Read(body, &request); !s.ok()) return translator->ErrorBody(s);
    const auto call = std::make_shared<FakeGenerateCall>(request);
    FakeGenerateCall::Start(&core_, call);
    const FakeResponse response = call->WaitUntilFinished();
    if (!response.status.ok() && response.chunks.empty()) return translator->ErrorBody(response.status);
    std::string out;
    for (const OutputChunk& chunk : response.chunks) translator->OnChunk(chunk, &out);
    translator->OnEnd({.status = response.status, .request_id = response.request_id}, &out);
    return out;
  }
  std::string Chat(const std::string& body) { return Generate(GenerationApi::kChat, body); }
  std::string Generate(const std::string& body) { return Generate(GenerationApi::kGenerate, body); }
  std::string Generate(GenerationApi api, const std::string& body) {
    GenerationTranslator translator(api, Facts());
    return Run(&translator, body);
  }
  // Through a translator of the OpenAI front.
  template <class Translator>
  Json OpenAi(const std::string& body) {
    Translator translator(Facts().response);
    return Json::parse(Run(&translator, body));
  }

  RecordingObserver observer_;
  TestModels models_;
  ServingCore core_;
};

}  // namespace dunlin::server::ollama

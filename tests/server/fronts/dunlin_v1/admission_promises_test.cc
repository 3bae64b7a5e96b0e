// SPDX-License-Identifier: Apache-2.0
// What a model's config lets clients ask for, and the memory that the outputs of all of them may hold.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "dunlin/v1/model.grpc.pb.h"
#include "tests/server/fronts/dunlin_v1/edge_server.h"

namespace dunlin::server {
namespace {

using engine::AttentionBackend;
using engine::Precision;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;

EdgeServerOptions Restricted() {
  EdgeServerOptions options;
  options.engine.allowed_backends.reset().set(static_cast<size_t>(AttentionBackend::kEfficient));
  options.engine.allowed_precisions.reset().set(static_cast<size_t>(Precision::kFp32));
  options.engine.min_priority = -5;
  options.engine.max_priority = 0;
  return options;
}

TEST(Allowed, ABackendOrPrecisionOutsideTheListIsRefusedWithTheList) {
  EdgeServer edge(Restricted());
  v1::GenerateRequest request = TextRequest("abc", 2);
  EXPECT_TRUE(edge.Generate(request).status.ok());  // AUTO takes what is allowed
  request.mutable_execution()->set_attention_backend(v1::ATTENTION_BACKEND_MATH);
  const Reply backend = edge.Generate(request);
  EXPECT_EQ(backend.reason(), "PROFILE_UNSUPPORTED");
  EXPECT_THAT(backend.status.error_message(),
              HasSubstr("math is not allowed for this model (models[].allowed.attention_backends is [efficient])"));
  request.mutable_execution()->set_attention_backend(v1::ATTENTION_BACKEND_EFFICIENT);
  request.mutable_execution()->set_precision(v1::PRECISION_BF16);
  const Reply precision = edge.Generate(request);
  EXPECT_THAT(precision.status.error_message(),
              HasSubstr("precision bf16 is not allowed for this model (models[].allowed.precisions is [fp32])"));
}

TEST(Allowed, APriorityOutsideTheRangeIsRefusedWithTheRange) {
  EdgeServer edge(Restricted());
  v1::GenerateRequest request = TextRequest("abc", 2);
  request.set_priority(-5);
  EXPECT_TRUE(edge.Generate(request).status.ok());
  for (const int priority : {-6, 1}) {
    request.set_priority(priority);
    const Reply refused = edge.Generate(request);
    EXPECT_EQ(refused.status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    EXPECT_EQ(refused.status.error_message(),
              "priority is " + std::to_string(priority) +
                  "; limit is [-5, 0] (models[].allowed.min_priority, models[].allowed.max_priority)");
  }
}

TEST(Allowed, GetModelShowsWhatIsNotAllowedAsUnsupportedWithTheReason) {
  EdgeServer edge(Restricted());
  const auto models = v1::ModelService::NewStub(edge.channel());
  v1::GetModelRequest request;
  request.set_name("tiny");
  v1::GetModelResponse response;
  grpc::ClientContext context;
  ASSERT_TRUE(models->GetModel(&context, request, &response).ok());
  int supported = 0;
  for (const v1::Profile& profile : response.profiles()) {
    const bool backend = profile.execution().attention_backend() == v1::ATTENTION_BACKEND_EFFICIENT;
    const bool precision = profile.execution().precision() == v1::PRECISION_FP32;
    EXPECT_EQ(profile.supported(), backend && precision);
    supported += profile.supported() ? 1 : 0;
    if (!backend) {
      EXPECT_THAT(profile.reasons(), Contains(HasSubstr("models[].allowed.attention_backends is [efficient]")));
    }
    if (!precision) {
      EXPECT_THAT(profile.reasons(), Contains(HasSubstr("models[].allowed.precisions is [fp32]")));
    }
  }
  EXPECT_EQ(supported, 1);
}

TEST(OutputBytes, LogProbabilitiesAreChargedBeforeAnythingIsSubmitted) {
  EdgeServerOptions options;
  options.limits.max_output_bytes = 20000;
  EdgeServer edge(options);
  v1::GenerateRequest request = TextRequest("abc", 60);
  EXPECT_TRUE(edge.Generate(request).status.ok());
  request.mutable_output()->set_logprobs(20);
  request.mutable_sampling()->set_n(2);  // 2 outputs of 60 tokens, 20 alternatives of 8 bytes each
  const Reply refused = edge.Generate(request);
  EXPECT_EQ(refused.status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(refused.reason(), "TOO_MANY_OUTPUT_BYTES");
  EXPECT_EQ(refused.Get<google::rpc::QuotaFailure>().violations(0).subject(), "limits.max_output_bytes");
  EXPECT_THAT(refused.status.error_message(), AllOf(HasSubstr("limit is 20000 bytes"), HasSubstr("take 22080 bytes")));
  EXPECT_TRUE(refused.messages.empty());
  request.mutable_sampling()->set_n(1);
  EXPECT_TRUE(edge.Generate(request).status.ok());
}

TEST(OutputBytes, AreGivenBackWhenACallEnds) {
  EdgeServerOptions options;
  options.limits.max_output_bytes = 12000;  // of one request below
  EdgeServer edge(options);
  v1::GenerateRequest request = TextRequest("abc", 60);
  request.mutable_output()->set_logprobs(20);
  edge.control().held = true;
  grpc::ClientContext context;
  const auto reader = edge.stub()->Generate(&context, request);
  const auto taken = [&edge] { return edge.server().admission_stats().output_bytes > 0; };
  ASSERT_TRUE(Eventually(taken));
  EXPECT_EQ(edge.Generate(request).reason(), "TOO_MANY_OUTPUT_BYTES");
  edge.control().held = false;
  Reply running;
  ReadAll(reader.get(), &context, &running);
  EXPECT_TRUE(running.status.ok());
  EXPECT_TRUE(Eventually([&taken] { return !taken(); }));
  EXPECT_TRUE(edge.Generate(request).status.ok());
}

}  // namespace
}  // namespace dunlin::server

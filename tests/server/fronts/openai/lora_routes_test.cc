// SPDX-License-Identifier: Apache-2.0
// The members of the routes that load and unload adapters, and their errors in vLLM's form.
#include "server/fronts/openai/lora_routes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "server/fronts/openai/models.h"
#include "server/json/json_value.h"
#include "server/serving/record/errors.h"

namespace dunlin::server {
namespace {

using ::testing::HasSubstr;

std::string ErrorOf(const absl::Status& status) {
  return std::string(status.message());
}

TEST(LoraRoutes, ReadVllmsMembers) {
  AdapterLoad load;
  ASSERT_TRUE(ReadLoraLoad(R"({"lora_name": "a", "lora_path": "/p", "load_inplace": true, "base_model_name": "m",
                               "is_3d_lora_weight": false, "mood": 1})",
                           /*strict=*/false, &load)
                  .ok());
  EXPECT_EQ(load.name, "a");
  EXPECT_EQ(load.path, "/p");
  EXPECT_EQ(load.model, "m");
  EXPECT_TRUE(load.in_place);
  AdapterLoad plain;
  ASSERT_TRUE(ReadLoraLoad(R"({"lora_name": "a", "lora_path": "/p"})", true, &plain).ok());
  EXPECT_FALSE(plain.in_place);
  std::string name;
  ASSERT_TRUE(ReadLoraUnload(R"({"lora_name": "a", "lora_int_id": 3})", true, &name).ok());
  EXPECT_EQ(name, "a");
}

TEST(LoraRoutes, NameTheMemberAtFault) {
  AdapterLoad load;
  std::string name;
  EXPECT_THAT(ErrorOf(ReadLoraLoad(R"({"lora_path": "/p"})", false, &load)), HasSubstr("lora_name is missing"));
  EXPECT_THAT(ErrorOf(ReadLoraLoad(R"({"lora_name": 3})", false, &load)), HasSubstr("lora_name"));
  AdapterLoad pathless;
  EXPECT_THAT(ErrorOf(ReadLoraLoad(R"({"lora_name": "a"})", false, &pathless)), HasSubstr("lora_path is missing"));
  EXPECT_THAT(
      ErrorOf(ReadLoraLoad(R"({"lora_name": "a", "lora_path": "/p", "is_3d_lora_weight": true})", false, &load)),
      HasSubstr("is_3d_lora_weight"));
  EXPECT_FALSE(ReadLoraLoad(R"({"lora_name": "a", "lora_path": "/p", "mood": 1})", /*strict=*/true, &load).ok());
  EXPECT_THAT(ErrorOf(ReadLoraUnload("{}", false, &name)), HasSubstr("lora_name is missing"));
  EXPECT_FALSE(ReadLoraUnload("[]", false, &name).ok());
}

TEST(LoraRoutes, ErrorsHaveVllmsStatusesAndTypes) {
  const struct {
    absl::Status status;
    int code;
    const char* type;
  } kRows[] = {
      {MakeError(Reason::kAdapterExists, "x"), 400, "InvalidUserInput"},
      {InvalidField("lora_name", "is missing", "a name"), 400, "InvalidUserInput"},
      {MakeError(Reason::kUnknownAdapter, "x"), 404, "NotFoundError"},
      {UnknownModel("m"), 404, "NotFoundError"},
      {MakeError(Reason::kLoadFailed, "x"), 400, "BadRequestError"},
      {MakeError(Reason::kModelMemory, "x"), 400, "BadRequestError"},
      {MakeError(Reason::kPermissionDenied, "x"), 403, "BadRequestError"},
      {MakeError(Reason::kInternal, "x"), 500, "InternalServerError"},
  };
  for (const auto& row : kRows) {
    const HttpReply reply = LoraError(row.status, "id");
    EXPECT_EQ(reply.status, row.code) << row.status;
    const absl::StatusOr<Json> body = ParseBody(reply.body);
    ASSERT_TRUE(body.ok()) << reply.body;
    EXPECT_EQ((*body)["error"]["type"], row.type) << row.status;
    EXPECT_EQ((*body)["error"]["code"], row.code);
    EXPECT_TRUE((*body)["error"]["param"].is_null());
  }
}

TEST(LoraRoutes, AdaptersAreModelsWithAParent) {
  const ModelFacts adapter = {"one", 7, 512, "/adapters/one", "base"};
  EXPECT_EQ(ModelBody(adapter),
            R"({"id":"one","object":"model","created":7,"owned_by":"dunlin","root":"/adapters/one","parent":"base",)"
            R"("max_model_len":512})");
}

}  // namespace
}  // namespace dunlin::server

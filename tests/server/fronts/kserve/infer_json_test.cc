// SPDX-License-Identifier: Apache-2.0
// Bodies in JSON: every datatype, binary tensors behind the JSON, and what is refused.
#include "server/fronts/kserve/infer_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/fronts/kserve/tensor_codec.h"

namespace dunlin::server::kserve {
namespace {

using testing::HasSubstr;

struct Read {
  inference::ModelInferRequest wire;
  BinaryOutputs binary;
  absl::Status status;
};

Read ReadBody(const std::string& document, const std::string& tensors = "") {
  Read read;
  read.status = ReadInferBody(document + tensors, document.size(), &read.wire, &read.binary);
  return read;
}

std::string InputJson(const std::string& datatype, const std::string& members, int elements = 1) {
  return R"({"inputs": [{"name": "x", "datatype": ")" + datatype + R"(", "shape": [)" + std::to_string(elements) +
         "], " + members + "}]}";
}

TEST(InferJson, ReadsEveryDatatypeAsItsRawBytes) {
  for (const DatatypeTraits& traits : Datatypes()) {
    const std::string datatype = traits.name;
    const bool text = datatype == "BYTES";
    const std::string data = text ? R"(["a", "bc"])" : (datatype == "BOOL" ? "[[true], [false]]" : "[[1], [0]]");
    const Read read = ReadBody(InputJson(datatype, "\"data\": " + data, 2));
    ASSERT_TRUE(read.status.ok()) << datatype << ": " << read.status;
    const auto elements = DecodeTensor(read.wire.inputs(0), &read.wire.raw_input_contents(0));
    ASSERT_TRUE(elements.ok()) << datatype << ": " << elements.status();
    ASSERT_EQ(elements->size(), 2U) << datatype;
    const size_t bytes = text ? size_t{4 + 1 + 4 + 2} : 2 * traits.element_bytes;
    EXPECT_EQ(read.wire.raw_input_contents(0).size(), bytes) << datatype;
  }
}

TEST(InferJson, TakesBinaryTensorsInTheirOrder) {
  const std::string document = R"({"inputs": [
      {"name": "a", "datatype": "INT32", "shape": [1], "parameters": {"binary_data_size": 4}},
      {"name": "b", "datatype": "BOOL", "shape": [1], "data": [true]},
      {"name": "c", "datatype": "BOOL", "shape": [1], "parameters": {"binary_data_size": 1}}],
      "outputs": [{"name": "p", "parameters": {"binary_data": false}}, {"name": "q"}],
      "parameters": {"binary_data_output": true, "seed": 7, "priority": -1, "temperature": 0.5, "device": "cpu"}})";
  const Read read = ReadBody(document, std::string("\1\0\0\0\1", 5));
  ASSERT_TRUE(read.status.ok()) << read.status;
  EXPECT_EQ(read.wire.raw_input_contents(0), std::string("\1\0\0\0", 4));
  EXPECT_EQ(read.wire.raw_input_contents(1), "\1");
  EXPECT_EQ(read.wire.raw_input_contents(2), "\1");
  EXPECT_TRUE(read.wire.inputs(0).parameters().empty());
  EXPECT_FALSE(read.binary.Has("p"));
  EXPECT_TRUE(read.binary.Has("q"));
  EXPECT_EQ(read.wire.parameters().at("seed").uint64_param(), 7U);
  EXPECT_EQ(read.wire.parameters().at("priority").int64_param(), -1);
  EXPECT_EQ(read.wire.parameters().at("temperature").double_param(), 0.5);
  EXPECT_EQ(read.wire.parameters().at("device").string_param(), "cpu");
}

TEST(InferJson, RefusesWhatIsMalformed) {
  struct Case {
    std::string json;
    std::string tensors;
    const char* message;
  };
  const std::vector<Case> cases = {
      {"", "", "body is not a JSON object"},
      {"[1]", "", "body is not a JSON object"},
      {R"({"id": "\ud800"})", "", "body is not a JSON object"},
      {R"({"inputs": )" + std::string(70, '[') + std::string(70, ']') + "}", "", "nested too deeply; limit is 64"},
      {R"({"id": "a", "id": "b"})", "", "id appears twice"},
      {R"({"parameters": {"seed": 1, "seed": 2}})", "", "parameters.seed appears twice"},
      {R"({"inputs": [{"name": "x", "shape": [1], "name": "y"}]})", "", "inputs[0].name appears twice"},
      {R"({"outputs": [{}, {"name": "x", "parameters": {"a": 1, "a": 1}}]})", "",
       "outputs[1].parameters.a appears twice"},
      {R"({"parameters": {"temperature": 1e999}})", "", "parameters.temperature is a number out of range"},
      {R"({"id": 7})", "", "id is not a string"},
      {R"({"inputs": 1})", "", "inputs is not a list"},
      {R"({"inputs": [1]})", "", "inputs[*] is not an object"},
      {R"({"outputs": [1]})", "", "outputs[*] is not an object"},
      {R"({"parameters": []})", "", "parameters is not an object"},
      {R"({"parameters": {"stop": ["x"]}})", "", "parameters[stop] is another type"},
      {R"({"inputs": [{"name": "x", "datatype": "BOOL", "shape": 1, "data": [true]}]})", "", "shape is not a list"},
      {R"({"inputs": [{"name": "x", "datatype": "BOOL", "shape": [1.5], "data": [true]}]})", "", "shape is not a list"},
      {R"({"inputs": [{"name": "x", "datatype": "BOOL", "shape": [1]}]})", "", "inputs[x].data is missing"},
      {InputJson("BOOL", R"("data": true)"), "", "inputs[x].data is not a list"},
      {InputJson("BOOL", R"("data": [1])"), "", "inputs[x].data has an element of another type; limit is BOOL"},
      {InputJson("UINT8", R"("data": [256])"), "", "limit is UINT8"},
      {InputJson("INT32", R"("data": [1.5])"), "", "limit is INT32"},
      {InputJson("FP32", R"("data": [1e300])"), "", "limit is FP32"},
      {InputJson("BYTES", R"("data": [1])"), "", "limit is BYTES"},
      {InputJson("BOOL", R"("parameters": {"binary_data_size": 2})"), "x", "limit is 1 bytes"},
      {InputJson("BOOL", R"("parameters": {"binary_data_size": -1})"), "x", "binary_data_size"},
      {InputJson("BOOL", R"("parameters": {"binary_data_size": 1}, "data": [true])"), "x", "together with binary data"},
      {InputJson("BOOL", R"("data": [true])"), "xy", "body has 2 bytes behind its last tensor"},
  };
  for (const Case& one : cases) {
    const Read read = ReadBody(one.json, one.tensors);
    EXPECT_THAT(std::string(read.status.message()), HasSubstr(one.message)) << one.json;
  }
}

// As many as the bounds of a body allow: parsers that look at all before each of them would not come back.
TEST(InferJson, IsDoneWithManyObjectsAndKeys) {
  std::string objects = R"({"inputs": [{})";
  std::string keys = R"({"id": 7)";
  for (int i = 0; i < 390'000; ++i) objects += ",{}";
  for (int i = 0; i < 4095; ++i) absl::StrAppend(&keys, ",\"", i, "\":0");
  EXPECT_THAT(std::string(ReadBody(objects + "]}", "").status.message()), HasSubstr("is not a list of integers"));
  EXPECT_THAT(std::string(ReadBody(keys + "}", "").status.message()), HasSubstr("id is not a string"));
  EXPECT_THAT(std::string(ReadBody(keys + R"(,"one more":0})", "").status.message()),
              HasSubstr("makes too many keys of one object; limit is 4096"));
}

// A body of 4 MiB would make a tree of 170 MiB.
TEST(InferJson, RefusesMoreObjectsThanItsTreeMayHave) {
  std::string objects = R"({"inputs": [{})";
  for (int i = 0; i < 1'000'000; ++i) objects += ",{}";
  EXPECT_EQ(std::string(ReadBody(objects + "]}", "").status.message()),
            "body holds too many values, lists and objects; limit is 48 MiB of memory for them");
}

TEST(InferJson, RefusesALengthBeyondTheBody) {
  Read read;
  read.status = ReadInferBody("{}", 3, &read.wire, &read.binary);
  EXPECT_THAT(std::string(read.status.message()), HasSubstr("Inference-Header-Content-Length is 3"));
}

TEST(InferJson, AnswersOfGenerateSayWhatParametersSayOfOutputs) {
  inference::ModelInferResponse response;
  response.set_model_name("m");
  response.set_model_version("1");
  const std::string silent = R"({"model_name":"m","model_version":"1"})";
  (*response.mutable_parameters())["device"].set_string_param("cpu");
  EXPECT_EQ(GenerateBodyOf(response), silent);
  (*response.mutable_parameters())["drafted_tokens"].set_string_param("7");
  (*response.mutable_parameters())["accepted_tokens"].set_string_param("4");
  (*response.mutable_parameters())["constraint_error"].set_string_param("GRAMMAR_TOO_COMPLEX");
  EXPECT_EQ(GenerateBodyOf(response),
            R"({"model_name":"m","model_version":"1","drafted_tokens":"7","accepted_tokens":"4",)"
            R"("constraint_error":"GRAMMAR_TOO_COMPLEX"})");
}

TEST(InferJson, DocumentsHaveTheirListsAndNumbers) {
  inference::ModelMetadataResponse metadata;
  metadata.set_name("m");
  metadata.add_inputs()->add_shape(-1);
  EXPECT_EQ(
      DocumentOf(metadata),
      R"({"name":"m","versions":[],"platform":"","inputs":[{"name":"","datatype":"","shape":[-1]}],"outputs":[]})");
  EXPECT_EQ(ErrorDocument("a \"b\""), R"({"error":"a \"b\""})");
}

}  // namespace
}  // namespace dunlin::server::kserve

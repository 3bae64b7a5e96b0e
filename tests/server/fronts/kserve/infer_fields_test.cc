// SPDX-License-Identifier: Apache-2.0
// From messages to what the serving core takes: the three vocabularies, where a field may stand, and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "server/fronts/kserve/infer_request.h"
#include "server/transport/grpc/wire_buffer.h"
#include "tests/server/fronts/kserve/infer_requests.h"

namespace dunlin::server::kserve {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Wire = inference::ModelInferRequest;

struct ReadFields {
  ClientRequest request;
  ResponseForm form;
  absl::Status status;
};

ReadFields ReadWire(const Wire& wire, Rpc rpc = Rpc::kStream) {
  ReadFields read;
  read.status = GenerateRequestOf(wire, rpc, &read.request, &read.form);
  return read;
}

Wire Prompt() {
  Wire wire;
  wire.set_model_name("m");
  wire.set_id("7");
  AddTexts("text_input", {"hello"}, &wire);
  return wire;
}

TEST(InferFields, HaveNamesOfTheirOwn) {
  std::set<std::string> names;
  for (const InferFieldRow& row : InferFieldRows()) {
    EXPECT_TRUE(names.emplace(row.name).second) << row.name;
    EXPECT_EQ(row.read != nullptr, row.use == FieldUse::kHonoured) << row.name;
  }
}

TEST(InferFields, TakeTheVllmBackendsTensors) {
  Wire wire = Prompt();
  AddFlag("stream", true, &wire);
  AddFlag("return_finish_reason", true, &wire);
  AddFlag("return_num_output_tokens", true, &wire);
  AddTexts("sampling_parameters", {R"({"temperature": "0.1", "top_k": -1, "max_tokens": "100", "stop": ["a", "b"]})"},
           &wire);
  (*wire.mutable_parameters())["max_tokens"].set_string_param("5");  // the tensor wins
  (*wire.mutable_parameters())["priority"].set_uint64_param(3);
  const ReadFields read = ReadWire(wire);
  ASSERT_TRUE(read.status.ok()) << read.status;
  EXPECT_EQ(std::get<std::string>(read.request.prompt), "hello");
  EXPECT_EQ(read.request.model, "m");
  EXPECT_EQ(read.request.request_id, "7");
  EXPECT_FLOAT_EQ(*read.request.sampling.temperature, 0.1F);
  EXPECT_EQ(read.request.sampling.top_k, 0);
  EXPECT_EQ(read.request.stopping.max_tokens, 100);
  EXPECT_THAT(read.request.stopping.stop, ElementsAre("a", "b"));
  EXPECT_EQ(read.request.priority, 3);
  EXPECT_FALSE(read.request.output.echo);  // streams leave the prompt out
  EXPECT_TRUE(read.form.stream);
  EXPECT_EQ(read.form.outputs, kTextOutput | kFinishReason | kNumOutputTokens);
}

TEST(InferFields, TakeTheTensorsOfTensorRtLlm) {
  Wire wire = Prompt();
  const int32_t max_tokens = 9;
  AddRaw("max_tokens", "INT32", 1, std::string(reinterpret_cast<const char*>(&max_tokens), 4), &wire);
  AddTexts("stop_words", {"end"}, &wire);
  AddRaw("beam_width", "INT32", 1, std::string("\1\0\0\0", 4), &wire);
  AddFlag("return_log_probs", true, &wire);
  AddTexts("guided_decoding_guide_type", {"regex"}, &wire);
  AddTexts("guided_decoding_guide", {"a+"}, &wire);
  const ReadFields read = ReadWire(wire);
  ASSERT_TRUE(read.status.ok()) << read.status;
  EXPECT_EQ(read.request.stopping.max_tokens, 9);
  EXPECT_THAT(read.request.stopping.stop, ElementsAre("end"));
  EXPECT_EQ(read.request.structured_output->kind, text::GrammarKind::kRegex);
  EXPECT_EQ(read.request.structured_output->text, "a+");
  EXPECT_EQ(read.form.outputs, kTextOutput | kCumLogProbs | kOutputLogProbs);
  EXPECT_EQ(read.request.output.logprobs, 0);
  EXPECT_TRUE(read.request.output.echo);  // a response in one piece begins with the prompt
}

TEST(InferFields, TakeDynamosNameOfStream) {
  Wire wire = Prompt();
  AddFlag("streaming", true, &wire);
  EXPECT_TRUE(ReadWire(wire).form.stream);
}

TEST(InferFields, ChooseBackendAndPrecisionAsParameters) {
  Wire wire = Prompt();
  (*wire.mutable_parameters())["attention_backend"].set_string_param("math");
  (*wire.mutable_parameters())["precision"].set_string_param("BF16");
  (*wire.mutable_parameters())["allow_fallback"].set_bool_param(true);
  (*wire.mutable_parameters())["speculation"].set_string_param("auto");
  const ReadFields read = ReadWire(wire);
  ASSERT_TRUE(read.status.ok()) << read.status;
  EXPECT_EQ(read.request.execution.attention_backend, engine::AttentionBackend::kMath);
  EXPECT_EQ(read.request.execution.precision, engine::Precision::kBf16);
  EXPECT_TRUE(read.request.execution.allow_fallback);
  EXPECT_EQ(read.request.execution.max_drafts, engine::kAutoDrafts);
  (*wire.mutable_parameters())["precision"].set_string_param("int3");
  EXPECT_THAT(std::string(ReadWire(wire).status.message()), HasSubstr("precision is \"int3\"; limit is auto, fp32"));
}

TEST(InferFields, TakeSpeculationAsAWordOrANumber) {
  Wire wire = Prompt();
  inference::InferParameter& speculation = (*wire.mutable_parameters())["speculation"];
  speculation.set_int64_param(3);
  EXPECT_EQ(ReadWire(wire).request.execution.max_drafts, 3);
  speculation.set_string_param("16");
  EXPECT_EQ(ReadWire(wire).request.execution.max_drafts, 16);
  speculation.set_int64_param(0);
  EXPECT_EQ(ReadWire(wire).request.execution.max_drafts, 0) << "off";
  speculation.set_int64_param(17);
  EXPECT_THAT(std::string(ReadWire(wire).status.message()),
              HasSubstr("speculation is \"17\"; limit is off, auto, or a number from 0 to 16"));
  speculation.set_bool_param(true);
  EXPECT_THAT(std::string(ReadWire(wire).status.message()),
              HasSubstr("speculation is \"true\"; limit is off, auto, or a number from 0 to 16"));
  speculation.set_int64_param(int64_t{1} << 40);
  EXPECT_THAT(std::string(ReadWire(wire).status.message()),
              HasSubstr("speculation is \"1099511627776\"; limit is off, auto, or a number from 0 to 16"));
  speculation.set_double_param(2.5);
  EXPECT_THAT(std::string(ReadWire(wire).status.message()),
              HasSubstr("speculation is \"2.5\"; limit is off, auto, or a number from 0 to 16"));
}

TEST(InferFields, SendOnlyOutputsThatWereAskedFor) {
  Wire wire = Prompt();
  wire.add_outputs()->set_name("num_output_tokens");
  EXPECT_EQ(ReadWire(wire).form.outputs, kNumOutputTokens);
  wire.add_outputs()->set_name("tokens");
  EXPECT_THAT(std::string(ReadWire(wire).status.message()), HasSubstr("outputs[tokens] is not an output"));
}

TEST(InferFields, RefuseByName) {
  struct Case {
    void (*bend)(Wire* wire);
    const char* message;
  };
  const Case cases[] = {
      {[](Wire* w) { AddTexts("image", {"x"}, w); }, "image is not supported"},
      {[](Wire* w) { AddTexts("who", {"x"}, w); }, "who is not a field of this request"},
      {[](Wire* w) { AddTexts("dimensions", {"3"}, w); }, "dimensions is not a field of this request"},
      {[](Wire* w) { AddTexts("text_input", {"x"}, w); }, "text_input is given twice"},
      {[](Wire* w) { AddTexts("sampling_parameters", {R"({"best_of": 2})"}, w); }, "best_of is not a field"},
      {[](Wire* w) { AddTexts("beam_width", {"4"}, w); }, "beam_width is not supported; limit is 1"},
      {[](Wire* w) { AddFlag("temperature", true, w); }, "temperature is not a number"},
      {[](Wire* w) { (*w->mutable_parameters())["sequence_id"].set_int64_param(4); }, "sequence_id is not supported"},
      {[](Wire* w) { (*w->mutable_parameters())["triton_x"].set_int64_param(4); }, "triton_x is not a field"},
      {[](Wire* w) { w->add_raw_input_contents("x"); }, "raw_input_contents has 2 entries; limit is 1, one per input"},
      {[](Wire* w) { w->mutable_inputs(0)->mutable_contents()->add_bytes_contents("x"); },
       "inputs[text_input].contents is given together with raw_input_contents"},
      {[](Wire* w) { (*w->mutable_inputs(0)->mutable_parameters())["shared_memory_region"].set_string_param("r"); },
       "text_input.parameters[shared_memory_region] is not supported"},
      {[](Wire* w) { AddTexts("guided_decoding_guide", {"x"}, w); }, "guided_decoding_guide_type is missing"},
      {[](Wire* w) {
         AddFlag("stream", true, w);
         AddFlag("exclude_input_in_output", false, w);
       },
       "exclude_input_in_output is false; limit is true with stream"},
      {[](Wire* w) { w->set_model_version("2"); }, "m/versions/2"},
  };
  for (const Case& one : cases) {
    Wire wire = Prompt();
    one.bend(&wire);
    EXPECT_THAT(std::string(ReadWire(wire).status.message()), HasSubstr(one.message));
  }
  Wire two;
  AddTexts("text_input", {"a", "b"}, &two);
  EXPECT_THAT(std::string(ReadWire(two).status.message()), HasSubstr("text_input has 2 elements; limit is 1 element"));
  Wire streamed = Prompt();
  AddFlag("stream", true, &streamed);
  EXPECT_THAT(std::string(ReadWire(streamed, Rpc::kInfer).status.message()),
              HasSubstr("stream is true; limit is false"));
}

TEST(InferFields, ArePeekedWithoutReadingTheTensors) {
  const Wire wire = Prompt();
  const PeekedRequest peeked = Peek(SerializeWire(wire));
  EXPECT_EQ(peeked.model, "m");
  EXPECT_EQ(peeked.id, "7");
  const grpc::Slice garbage("\xff\xff\xff\xff\xff\xff");
  EXPECT_EQ(Peek(grpc::ByteBuffer(&garbage, 1)).model, "");
  const grpc::Slice cut("\x0a\x7fx");  // a name of 127 bytes, of which one is there
  EXPECT_EQ(Peek(grpc::ByteBuffer(&cut, 1)).model, "");
  EXPECT_EQ(Peek(grpc::ByteBuffer()).model, "");
}

}  // namespace
}  // namespace dunlin::server::kserve

// SPDX-License-Identifier: Apache-2.0
// Messages that are no messages, methods that do not exist, metadata.
#include "absl/strings/str_cat.h"
#include "tests/integration/refusals/groups.h"
#include "tests/integration/refusals/requests.h"

namespace dunlin::integration {
namespace {

using grpc::StatusCode;

Answer Malformed(const char* message) {
  return Refused(StatusCode::INVALID_ARGUMENT, "MALFORMED_MESSAGE",
                 absl::StrCat("the message is not a dunlin.v1.", message,
                              ": it is malformed, or one of its strings is not UTF-8"));
}

Sent Raw(std::string message) {
  return Bytes(kGenerateMethod, std::move(message));
}

// A good request with these bytes behind it.
Sent Followed(const std::string& bytes) {
  return Raw(absl::StrCat(Generate("").message, bytes));
}

Sent Compressed(Sent sent) {
  sent.compressed = true;
  return sent;
}

}  // namespace

Group MessageRows() {
  const Answer malformed = Malformed("GenerateRequest");
  const Answer large = OfGrpc(StatusCode::RESOURCE_EXHAUSTED, "Received message larger than max (~ vs. 4194304)");
  return {
      "Messages",
      kAttackConfig,
      {
          {"0 bytes", Raw(""), Invalid("model", "is empty; limit is the name of a served model")},
          {"a text that is not UTF-8", Raw(std::string("\x12\x03\xff\xfe\xfd", 5)), malformed},
          {"an overlong NUL", Raw(std::string("\x12\x02\xc0\x80", 4)), malformed},
          {"a surrogate", Raw(std::string("\x12\x03\xed\xa0\x80", 5)), malformed},
          {"a character behind Unicode", Raw(std::string("\x12\x04\xf4\x90\x80\x80", 6)), malformed},
          {"half a character", Raw(std::string("\x12\x02\xe2\x82", 4)), malformed},
          {"a stop string that is not UTF-8", Followed(std::string("\x32\x03\x1a\x01\xff", 5)), malformed},
          {"a role that is not UTF-8", Followed(std::string("\x22\x05\x0a\x03\x0a\x01\xff", 7)), malformed},
          {"a message cut off in a tag", Raw(std::string("\x80", 1)), malformed},
          {"a message cut off in a length", Raw(std::string("\x12\xff", 2)), malformed},
          {"a length that lies",
           Raw(std::string("\x12\x7f"
                           "ab",
                           4)),
           malformed},
          {"a length of 4 GiB", Raw(std::string("\x12\xff\xff\xff\xff\x0f", 6)), malformed},
          {"a negative length", Raw(std::string("\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11)), malformed},
          {"a tag without end", Raw(std::string(11, '\xff')), malformed},
          {"field number zero",
           Raw(std::string("\x02\x01"
                           "a",
                           3)),
           malformed},
          {"wire type 6", Raw(std::string("\x16\x01", 2)), malformed},
          {"wire type 7", Raw(std::string("\x17\x01", 2)), malformed},
          {"the end of a group that did not begin", Followed(std::string("\x0c", 1)), malformed},
          {"twenty thousand nested groups", Raw(std::string(20000, '\x0b')), malformed},
          {"a million nested groups in an unknown field", Raw(Times(1000000, "\xfb\x3e")), malformed},
          {"an unknown field", Followed("\xb8\x3e\x07"), Ok()},
          {"an unknown field of a megabyte", Followed(absl::StrCat("\xba\x3e\xc0\x84\x3d", Times(1000000, "u"))), Ok()},
          {"a million unknown fields", Followed(Times(1000000, "\xb8\x3e\x07")), Ok()},
          {"a field of another wire type", Followed(std::string("\x08\x07", 2)), Ok()},
          {"the model three hundred thousand times",
           Raw(Times(300000,
                     "\x0a\x04"
                     "demo")),
           Invalid("input", "is empty; limit is one of text, token_ids, chat")},
          {"random bytes", Raw(std::string("\x93\x4e\xd1\x07\x8c\xfe\x11\xa0\x5b\x3c\x99\x02\xee\x71\xc8\x40", 16)),
           malformed},
          {"4 MiB and one byte", Raw(Times((4 << 20) + 1, "x")), large},
          {"64 MiB", Raw(Times(64 << 20, "x")), large},
          {"a compressed message", Compressed(Generate(absl::StrCat("text: '", Times(1 << 20, "a"), "'"))),
           OfGrpc(StatusCode::UNIMPLEMENTED, "Compression algorithm 'gzip' is disabled.")},
          {"tokenize a text that is not UTF-8", Bytes(kTokenizeMethod, "\x12\x01\xff"), Malformed("TokenizeRequest")},
          {"detokenize cut off", Bytes(kDetokenizeMethod, "\x12\x05\x01"), Malformed("DetokenizeRequest")},
          {"a chat template of an id", Bytes(kApplyChatTemplateMethod, "\x12\x01\xff"),
           Malformed("ApplyChatTemplateRequest")},
          {"an embedding that is not UTF-8", Bytes(kEmbedMethod, "\x0a\x01\xff"), Malformed("EmbedRequest")},
          {"a model's name that is not UTF-8", Bytes(kGetModelMethod, "\x0a\x01\xff"), Malformed("GetModelRequest")},
          {"a list of models with bytes", Bytes("/dunlin.v1.ModelService/ListModels", "\x93\x4e"),
           Malformed("ListModelsRequest")},
      }};
}

Group MethodRows() {
  const Answer unknown = OfGrpc(StatusCode::UNIMPLEMENTED, "");
  return {"Methods",
          kAttackConfig,
          {
              {"of another case", Bytes("/dunlin.v1.GenerationService/generate", ""), unknown},
              {"with a slash behind it", Bytes("/dunlin.v1.GenerationService/Generate/", ""), unknown},
              {"with two slashes before it", Bytes("//dunlin.v1.GenerationService/Generate", ""), unknown},
              {"with an escaped slash", Bytes("/dunlin.v1.GenerationService%2fGenerate", ""), unknown},
              {"without a slash", Bytes("dunlin.v1.GenerationService/Generate", ""), unknown},
              {"of an unknown service", Bytes("/dunlin.v1.NoService/Generate", ""), unknown},
              {"of a service that is not ours", Bytes("/grpc.channelz.v1.Channelz/GetServers", ""), unknown},
              {"as a path", Bytes("/../../etc/passwd", ""), unknown},
              {"health of an unknown service", Bytes("/grpc.health.v1.Health/Check", "\x0a\x01x"),
               Refused(StatusCode::NOT_FOUND, "UNKNOWN_SERVICE", "no such service")},
              {"health with a name that is not UTF-8", Bytes("/grpc.health.v1.Health/Check", "\x0a\x01\xff"), unknown},
          }};
}

Group MetadataRows() {
  const Answer large = OfGrpc(StatusCode::RESOURCE_EXHAUSTED, "received initial metadata size exceeds limit");
  std::vector<std::pair<std::string, std::string>> many;
  for (int i = 0; i < 300; ++i) many.emplace_back(absl::StrCat("x-", i), "v");
  const Sent good = Generate("");
  // A client that goes on to send may see its connection closed before it sees the status.
  const Sent only_headers = WithSteps(good, {});
  return {"Metadata",
          kAttackConfig,
          {
              {"a value of 16 KB", WithMetadata(only_headers, {{"x-heavy", Times(16000, "h")}}), large},
              {"a value of 60 KB", WithMetadata(only_headers, {{"x-heavy", Times(60000, "h")}}), large},
              {"three hundred keys", WithMetadata(only_headers, many), large},
              {"a binary value of 16 KB", WithMetadata(only_headers, {{"x-heavy-bin", Times(16000, "\xff")}}), large},
              {"a request id that is too long", WithMetadata(good, {{"x-request-id", Times(200, "x")}}),
               Invalid("request_id", "has 200 bytes; limit is 0 to 128")},
              {"two request ids", WithMetadata(good, {{"x-request-id", "a"}, {"x-request-id", "b"}}), Ok()},
              {"a binary value that is not UTF-8", WithMetadata(good, {{"x-some-bin", std::string("\xff\x00\xfe", 3)}}),
               Ok()},
              {"a status of the client's",
               WithMetadata(good, {{"grpc-status-details-bin", "x"}, {"grpc-retry-pushback-ms", "-1"}}), Ok()},
              {"a hundred small keys", WithMetadata(good, {many.begin(), many.begin() + 100}), Ok()},
          }};
}

}  // namespace dunlin::integration

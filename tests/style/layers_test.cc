// SPDX-License-Identifier: Apache-2.0
// The arrows of docs/architecture.md: server -> engine -> kernels/api, proto only from server, vectors only in kernels;
// and those between the rooms of server and engine.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "tests/style/source_tree.h"

namespace dunlin::style {
namespace {

struct Rule {
  const char* files;      // paths it binds
  const char* except;     // of these, the ones it does not; "" for none
  const char* forbidden;  // a line that matches breaks it
  const char* why;
};

const Rule kRules[] = {
    {"^kernels/", "", R"(#include "(engine|server|tools|dunlin/v1|tests)/)", "kernels include nothing above them"},
    {"^kernels/api/", "", R"(#include "kernels/(cpu|cuda|module)/)", "the contract does not know its implementations"},
    {"^kernels/cuda/", "", R"(#include "kernels/cpu/)", "devices share the contract alone"},
    {"^engine/", "", R"(#include "(server|tools|dunlin/v1|google/rpc|grpc/|tests)/?)",
     "the engine knows no wire and no edge"},
    {"^server/http_calls/", "", R"(#include ("server/transport/grpc/|<nlohmann))",
     "calls over HTTP know no gRPC and no JSON"},
    {"^server/grpc_calls/", "", R"(#include ("server/transport/http/|"dunlin/|<nlohmann))",
     "calls on gRPC know no HTTP and no API"},
    {"^server/fronts/", "", R"(models\(\)\.List\(\))", "fronts tell of the models that a caller may use (ModelsFor)"},
    {"^tools/", "", R"(#include "(server|tests)/)", "tools do not depend on the server"},
    {"^server/", "^server/commands/", R"(#include "tools/)", "only the commands run tools"},
    {"^(engine|server|tools)/", "", R"(#include "kernels/(cpu|cuda|module)/)",
     "only kernels/api is visible above kernels"},
    {"^(engine|kernels)/", "", R"(#include <(grpc|google/protobuf))", "gRPC and protobuf stay at the edge"},
    {"^(kernels|engine|server|tools)/", "^kernels/cpu/.*(avx|amx|simd)", R"(immintrin|_mm(256|512)_|__m(128|256|512))",
     "vector intrinsics live in the variant folders of kernels/cpu"},
    {"^(kernels|engine)/", "", R"(\bgetenv\()", "no environment variable is read below server/"},
    {"^(kernels|engine|server|tools)/", "", R"(using namespace )", "names are spelled or aliased"},
    {"^(kernels|engine|server|tools)/.*\\.h$", "", R"(^#ifndef .*_H_?$)", "headers use #pragma once"},
    {"^(kernels|engine|server|tools)/", "", R"(\b(TODO|FIXME|XXX)\b)", "finish it, or leave it out and say so"},
};

const Rule kThreadRule = {
    "^(kernels|engine|server|tools)/",
    "^(kernels/cpu/thread_pool|engine/((encoder/encoder_)?engine|mask_thread|quantize/gptq)|engine/model/"
    "weights/weight_reader|server/(serving/text_pool|models/(grammar_lane|heartbeat|text_loader))|server/transport/"
    "(http/"
    "http_server|grpc/connection_acceptor|zmq/event_publisher)|"
    "server/(commands/(serve|quantize)|process/log_queue|tracing/span_exporter)|engine/text/rust/src/grammar/mod)",
    R"(std::(jthread|thread\b|async\())", "threads live in the places that docs/architecture.md lists"};

std::vector<std::string> Violations(const Rule& rule) {
  const std::regex files(rule.files);
  const std::regex except(rule.except);
  const std::regex forbidden(rule.forbidden);
  std::vector<std::string> found;
  for (const SourceFile& file : ReadSourceTree()) {
    if (!std::regex_search(file.path, files)) continue;
    if (*rule.except != '\0' && std::regex_search(file.path, except)) continue;
    for (size_t i = 0; i < file.lines.size(); ++i) {
      if (std::regex_search(file.lines[i], forbidden)) {
        found.push_back(file.path + ":" + std::to_string(i + 1) + ": " + file.lines[i]);
      }
    }
  }
  return found;
}

TEST(Layers, SourcesKeepTheRules) {
  for (const Rule& rule : kRules) EXPECT_THAT(Violations(rule), testing::IsEmpty()) << rule.why;
}

TEST(Layers, ThreadsLiveInTheListedPlaces) {
  EXPECT_THAT(Violations(kThreadRule), testing::IsEmpty()) << kThreadRule.why;
}

// Which rooms of the same layer a room may include. A header directly in server/ or engine/ is open to every room,
// except the owners of kOwners.
const std::map<std::string, std::set<std::string>> kRooms = {
    {"engine/base", {}},
    {"engine/cache", {"engine/base"}},
    {"engine/sampling", {"engine/base"}},
    {"engine/text", {"engine/base", "engine/sampling"}},
    {"engine/chat_output", {"engine/base", "engine/text"}},
    {"engine/plan", {"engine/base", "engine/cache", "engine/sampling"}},
    {"engine/model", {"engine/base"}},
    {"engine/layers", {"engine/base", "engine/model"}},
    {"engine/runtime", {"engine/base", "engine/layers", "engine/model", "engine/plan", "engine/sampling"}},
    {"engine/quantize", {"engine/base", "engine/layers", "engine/model", "engine/runtime"}},
    {"engine/scheduler", {"engine/base", "engine/cache", "engine/plan", "engine/sampling"}},
    {"engine/encoder",
     {"engine/base", "engine/layers", "engine/model", "engine/runtime", "engine/scheduler", "engine/text"}},
    {"server/access", {}},
    {"server/config", {"server/access"}},
    {"server/text_worker", {}},
    {"server/models", {"server/access", "server/config", "server/text_worker"}},
    {"server/serving", {"server/access", "server/models"}},
    {"server/transport", {"server/access", "server/models", "server/serving"}},
    {"server/http_calls", {"server/access", "server/models", "server/serving", "server/transport"}},
    {"server/grpc_calls", {"server/access", "server/models", "server/serving", "server/transport"}},
    {"server/fronts",
     {"server/access", "server/grpc_calls", "server/http_calls", "server/models", "server/serving",
      "server/transport"}},
    {"server/process", {"server/access", "server/serving"}},
    {"server/tracing", {"server/serving", "server/transport"}},
    {"server/metrics", {"server/access", "server/models", "server/process", "server/serving"}},
};
const std::set<std::string> kOwners = {"engine/engine.h", "engine/engine_loop.h", "server/edge.h"};

// "server/access/admission.h" -> "server/access"; "" for a file directly in a layer.
std::string RoomOf(const std::string& path) {
  const size_t layer = path.find('/');
  const size_t room = layer == std::string::npos ? layer : path.find('/', layer + 1);
  return room == std::string::npos ? "" : path.substr(0, room);
}

// Why `room` may not include `header`, or "".
std::string RoomViolation(const std::string& room, const std::string& header) {
  const auto allowed = kRooms.find(room);
  if (allowed == kRooms.end()) return room == "server/commands" ? "" : "the room has no row in kRooms";
  if (header.substr(0, header.find('/')) != room.substr(0, room.find('/'))) return "";  // a matter of kRules
  if (kOwners.count(header) != 0) return "a room does not include its owner";
  const std::string other = RoomOf(header);
  if (other.empty() || other == room || allowed->second.count(other) != 0) return "";
  return room + " may not include " + other;
}

TEST(Layers, RoomsIncludeOnlyTheRoomsBelowThem) {
  const std::regex include("#include \"([^\"]+)\"");
  for (const SourceFile& file : ReadSourceTree()) {
    const std::string room = RoomOf(file.path);
    if (room.empty() || (file.path.rfind("engine/", 0) != 0 && file.path.rfind("server/", 0) != 0)) continue;
    for (const std::string& line : file.lines) {
      std::smatch match;
      if (std::regex_search(line, match, include)) {
        EXPECT_EQ(RoomViolation(room, match[1]), "") << file.path << " includes " << match[1];
      }
    }
  }
}

TEST(Layers, RoomRulesFindWhatTheyForbid) {
  EXPECT_NE(RoomViolation("engine/scheduler", "engine/runtime/runtime.h"), "");
  EXPECT_NE(RoomViolation("server/access", "server/serving/serving_core.h"), "");
  EXPECT_NE(RoomViolation("engine/runtime", "engine/engine.h"), "");
  EXPECT_NE(RoomViolation("server/unknown", "server/edge.h"), "");
  EXPECT_EQ(RoomViolation("engine/scheduler", "engine/plan/step_plan.h"), "");
  EXPECT_EQ(RoomViolation("engine/scheduler", "kernels/api/dtype.h"), "");
}

// A front end knows no other front end, a transport no front end and no other transport. transport/tls listens nowhere:
// it is what the others share.
TEST(Layers, FrontsAndTransportsAreApart) {
  const std::regex owner("^server/(fronts|transport)/([a-z0-9_]+)/");
  const std::regex include("#include \"server/(fronts|transport)/([a-z0-9_]+)/");
  for (const SourceFile& file : ReadSourceTree()) {
    std::smatch self;
    if (!std::regex_search(file.path, self, owner)) continue;
    for (const std::string& line : file.lines) {
      std::smatch other;
      if (!std::regex_search(line, other, include) || other[1] != self[1] || other[2] == "tls") continue;
      EXPECT_EQ(other[2], self[2]) << file.path << ": " << line;
    }
  }
}

TEST(Layers, RulesFindWhatTheyForbid) {
  const Rule every_pragma{"^kernels/api/", "", "#pragma once", "each header has one"};
  EXPECT_GT(Violations(every_pragma).size(), 5U);
}

}  // namespace
}  // namespace dunlin::style

// SPDX-License-Identifier: Apache-2.0
// The page of an Edge: its files with their headers, what browsers ask again, the documents that it reads, the key that
// turns it off.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <regex>
#include <string>

#include "absl/strings/str_cat.h"
#include "server/fronts/page/page_files.h"
#include "server/fronts/page/profile_statistics.h"
#include "tests/server/fronts/dunlin_v1/edge_server.h"
#include "tests/server/serving/prime_record.h"
#include "tests/server/transport/http/raw_client.h"

namespace dunlin::server::page {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

struct PageAnswer {
  int status = 0;
  std::string head;
  std::string body;

  // Of the header's first line of that name; "" if there is none.
  std::string header(const std::string& name) const {
    std::smatch match;
    return std::regex_search(head, match, std::regex("\r\n" + name + ": ([^\r]*)\r\n")) ? match[1].str() : "";
  }
};

class Page : public testing::Test {
 protected:
  void Start(bool page) {
    EdgeServerOptions options;
    options.server.fronts.Set("protocols.page", page ? "true" : "false");
    options.server.version = "1.2.3";
    options.server.cpu_variant = "scalar";
    options.server.http.emplace();
    options.server.http->address = "127.0.0.1:0";
    options.server.http->sources = {[] { return std::string(); }, [] { return std::string(); },
                                    [] { return std::string(); }};
    edge_ = std::make_unique<EdgeServer>(options);
  }
  PageAnswer Call(const std::string& method, const std::string& path, const std::string& headers = "") {
    RawClient client(edge_->server().http_address());
    client.Send(absl::StrCat(method, " ", path, " HTTP/1.1\r\nConnection: close\r\n", headers, "\r\n"));
    const std::string all = client.ReadAll();
    const size_t end = all.find("\r\n\r\n");
    PageAnswer answer;
    if (end == all.npos) return answer;
    answer.head = all.substr(0, end + 2);
    answer.body = all.substr(end + 4);
    answer.status = std::stoi(all.substr(std::strlen("HTTP/1.1 ")));
    return answer;
  }
  json Document(const std::string& path) { return json::parse(Call("GET", path).body, nullptr, false); }

  std::unique_ptr<EdgeServer> edge_;
};

TEST_F(Page, ServesItsFilesWithAPolicyThatAllowsNothingElse) {
  Start(true);
  for (const PageFile& file : PageFiles()) {
    const bool index = file.name == "index.html";
    const PageAnswer answer = Call("GET", index ? "/" : absl::StrCat("/page/", std::string(file.name)));
    EXPECT_EQ(answer.status, 200) << file.name;
    EXPECT_EQ(answer.body, file.bytes) << file.name;
    EXPECT_EQ(answer.header("Content-Type"), file.content_type) << file.name;
    EXPECT_EQ(answer.header("Content-Security-Policy"),
              "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
              "base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
        << file.name;
    EXPECT_EQ(answer.header("X-Content-Type-Options"), "nosniff") << file.name;
    EXPECT_EQ(answer.header("Referrer-Policy"), "no-referrer") << file.name;
    EXPECT_EQ(answer.header("Cache-Control"), "no-cache") << file.name;
  }
}

// What the policy would block, and what would be fetched from elsewhere.
TEST_F(Page, FilesNameNoOtherServerAndHaveNoInlineScriptsOrStyles) {
  for (const PageFile& file : PageFiles()) {
    const std::string text(file.bytes);
    EXPECT_FALSE(std::regex_search(text, std::regex("https?://(?!www\\.w3\\.org/2000/svg)"))) << file.name;
    EXPECT_THAT(text, AllOf(Not(HasSubstr(" style=\"")), Not(HasSubstr("<style")), Not(HasSubstr("innerHTML")),
                            Not(HasSubstr("@import")), Not(HasSubstr("eval("))))
        << file.name;
  }
}

TEST_F(Page, EveryFileThatAnotherNamesIsThere) {
  const std::regex named("(?:\"/page/|from '\\./)([a-z.]+)[\"']");
  int num_named = 0;
  for (const PageFile& file : PageFiles()) {
    const std::string text(file.bytes);
    for (std::sregex_iterator it(text.begin(), text.end(), named); it != std::sregex_iterator(); ++it, ++num_named) {
      const std::string name = (*it)[1].str();
      const auto files = PageFiles();
      EXPECT_TRUE(std::any_of(files.begin(), files.end(), [&name](const PageFile& f) { return f.name == name; }))
          << file.name << " names " << name;
    }
  }
  EXPECT_GT(num_named, 10);
}

TEST_F(Page, AnswersHeadWithoutABody) {
  Start(true);
  const PageAnswer get = Call("GET", "/");
  const PageAnswer head = Call("HEAD", "/");
  EXPECT_EQ(head.status, 200);
  EXPECT_EQ(head.body, "");
  EXPECT_EQ(head.header("Content-Length"), absl::StrCat(get.body.size()));
  EXPECT_EQ(head.header("ETag"), get.header("ETag"));
}

TEST_F(Page, IsNotSentAgainToABrowserThatHasIt) {
  Start(true);
  const std::string etag = Call("GET", "/page/main.js").header("ETag");
  ASSERT_EQ(etag.size(), 34U);
  for (const std::string& known : {etag, "W/" + etag, "\"other\", " + etag, std::string("*")}) {
    const PageAnswer answer = Call("GET", "/page/main.js", "If-None-Match: " + known + "\r\n");
    EXPECT_EQ(answer.status, 304) << known;
    EXPECT_EQ(answer.body, "") << known;
    EXPECT_EQ(answer.header("ETag"), etag) << known;
    EXPECT_EQ(answer.header("Content-Length"), "") << known;
  }
  EXPECT_EQ(Call("GET", "/page/main.js", "If-None-Match: \"other\"\r\n").status, 200);
  EXPECT_EQ(Call("GET", "/page/api.js", "If-None-Match: " + etag + "\r\n").status, 200);
}

TEST_F(Page, IsCompressedForThoseThatTakeIt) {
  Start(true);
  const PageAnswer plain = Call("GET", "/page/page.css");
  EXPECT_EQ(plain.header("Content-Encoding"), "");
  EXPECT_EQ(plain.header("Vary"), "Accept-Encoding");
  for (const char* taken : {"gzip", "br, gzip;q=0.5", "deflate, GZIP", "*"}) {
    const PageAnswer answer = Call("GET", "/page/page.css", absl::StrCat("Accept-Encoding: ", taken, "\r\n"));
    EXPECT_EQ(answer.header("Content-Encoding"), "gzip") << taken;
    EXPECT_LT(answer.body.size(), plain.body.size()) << taken;
    EXPECT_THAT(answer.body, testing::StartsWith("\x1f\x8b")) << taken;
    EXPECT_NE(answer.header("ETag"), plain.header("ETag")) << taken;
  }
  for (const char* refused : {"identity", "gzip;q=0", "br", "gzip; x"}) {
    const PageAnswer answer = Call("GET", "/page/page.css", absl::StrCat("Accept-Encoding: ", refused, "\r\n"));
    EXPECT_EQ(answer.body, plain.body) << refused;
  }
}

TEST_F(Page, RefusesOtherMethodsAndNames) {
  Start(true);
  for (const char* path : {"/", "/page/main.js", "/status/models", "/status/profiles"}) {
    const PageAnswer answer = Call("POST", path, "Content-Length: 0\r\n");
    EXPECT_EQ(answer.status, 405) << path;
    EXPECT_EQ(answer.header("Allow"), "GET, HEAD, OPTIONS") << path;
  }
  for (const char* path : {"/page/none.js", "/page/../main.js", "/page/%2e%2e/page.css", "/page/main.js/"}) {
    EXPECT_EQ(Call("GET", path).status, 404) << path;
  }
}

TEST_F(Page, TellsOfModelsAndTheirProfiles) {
  Start(true);
  const json document = Document("/status/models");
  EXPECT_EQ(document["version"], "1.2.3");
  EXPECT_EQ(document["cpu_variant"], "scalar");
  ASSERT_EQ(document["models"].size(), 3U);
  const json& tiny = document["models"][0];
  EXPECT_EQ(tiny["name"], "tiny");
  EXPECT_EQ(tiny["kind"], "decoder");
  EXPECT_EQ(tiny["max_context_tokens"], kTinyContext);
  EXPECT_EQ(tiny["chat"]["supported"], true);
  const json& bare = document["models"][1];
  EXPECT_EQ(bare["chat"]["supported"], false);
  EXPECT_NE(bare["chat"]["reason"], "");
  EXPECT_EQ(document["models"][2]["kind"], "encoder");
  const auto& rows = edge_->model("tiny").profiles->rows();
  ASSERT_EQ(tiny["profiles"].size(), rows.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    const json& profile = tiny["profiles"][i];
    EXPECT_EQ(profile["attention_backend"], Name(rows[i].profile.attention_backend));
    EXPECT_EQ(profile["precision"], Name(rows[i].profile.precision));
    EXPECT_EQ(profile["supported"], rows[i].supported);
    EXPECT_EQ(profile["reasons"].get<std::vector<std::string>>(), rows[i].reasons);
  }
}

TEST_F(Page, CountsGenerationsByTheirProfiles) {
  Start(true);
  EXPECT_EQ(Document("/status/profiles")["models"][0], (json{{"name", "tiny"}, {"profiles", json::array()}}));
  const Reply reply = edge_->Generate(TextRequest("abc", 5));
  ASSERT_TRUE(reply.status.ok());
  json document;
  ASSERT_TRUE(Eventually([&] {
    document = Document("/status/profiles");
    return !document["models"][0]["profiles"].empty();
  }));
  const json& profile = document["models"][0]["profiles"][0];
  EXPECT_EQ(profile["requests"], 1);
  EXPECT_EQ(profile["output_tokens"], 5);
  EXPECT_EQ(profile["ttft"].size(), document["edges_ms"].size() + 1);
  const std::vector<uint64_t> itl = profile["itl"];
  EXPECT_EQ(std::accumulate(itl.begin(), itl.end(), uint64_t{0}), 4U) << "the intervals of 5 tokens";
}

TEST_F(Page, CanBeTurnedOff) {
  Start(false);
  EXPECT_THAT(Call("GET", "/").body, Not(HasSubstr("<html")));
  for (const char* path : {"/page/main.js", "/status/models", "/status/profiles"}) {
    EXPECT_EQ(Call("GET", path).status, 404) << path;
  }
}

TEST(ProfileStatisticsTest, AddsUpTimesOfServedModelsAlone) {
  TestModels models{engine::EngineOptions()};
  ProfileStatistics statistics(models.repository());
  RequestRecord record = PrimeRecord();  // 58 tokens in 2 outputs; 10 s to the first token, 13 s to the last
  record.status = absl::OkStatus();
  statistics.OnFinished(record);  // of a model that is not served
  record.model = "bare";
  statistics.OnFinished(record);
  record.status = absl::CancelledError();
  statistics.OnFinished(record);
  statistics.OnTokenInterval("bare", *record.profile, 7 * kSecond);
  engine::ExecutionProfile other = *record.profile;
  other.precision = engine::Precision::kBf16;
  statistics.OnTokenInterval("bare", other, 7 * kSecond);  // of a generation that has not ended
  const std::vector<ModelLease> leases = {models.repository().Lease("tiny"), models.repository().Lease("bare")};
  const json document = json::parse(statistics.Document(leases));
  EXPECT_TRUE(document["models"][0]["profiles"].empty());
  ASSERT_EQ(document["models"][1]["profiles"].size(), 1U);
  const json& profile = document["models"][1]["profiles"][0];
  EXPECT_EQ(profile["attention_backend"], "math");
  EXPECT_EQ(profile["precision"], "fp8");
  EXPECT_EQ(profile["requests"], 1);
  EXPECT_EQ(profile["output_tokens"], 58);
  const auto bucket_of = [&](const char* name) {
    const std::vector<uint64_t> counts = profile[name];
    EXPECT_EQ(std::count(counts.begin(), counts.end(), 1U), 1) << name;
    return static_cast<size_t>(std::find(counts.begin(), counts.end(), 1U) - counts.begin());
  };
  EXPECT_GE(TimeHistogram::EdgeMs(bucket_of("ttft")), 10e3);
  EXPECT_LT(TimeHistogram::EdgeMs(bucket_of("ttft") - 1), 10e3);
  EXPECT_GE(TimeHistogram::EdgeMs(bucket_of("itl")), 7e3);
  EXPECT_LT(TimeHistogram::EdgeMs(bucket_of("itl") - 1), 7e3);
  EXPECT_GE(TimeHistogram::EdgeMs(bucket_of("per_token")), 13e3 / 28);
  EXPECT_LT(TimeHistogram::EdgeMs(bucket_of("per_token") - 1), 13e3 / 28);
}

TEST(TimeHistogramTest, HasABucketForTimesBeyondItsEdges) {
  TimeHistogram histogram;
  histogram.Add(engine::TimeNs{3600} * 1'000'000'000);
  histogram.Add(0);
  EXPECT_EQ(histogram.counts().back(), 1U);
  EXPECT_EQ(histogram.counts().front(), 1U);
  EXPECT_GT(TimeHistogram::EdgeMs(TimeHistogram::kNumEdges - 1), 60e3);
}

}  // namespace
}  // namespace dunlin::server::page

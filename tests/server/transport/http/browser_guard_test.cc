// SPDX-License-Identifier: Apache-2.0
// What a browser may be made to send by a page of another site is refused; what other clients send is not.
#include "server/transport/http/browser_guard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/server/transport/http/http_fixture.h"

namespace dunlin::server {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(BrowserGuard, LocalhostAndAddressesAreTheMachineThatTheyName) {
  for (const char* own : {"localhost", "localhost:8080", "LOCALHOST", "127.0.0.1", "127.0.0.1:8080", "127.255.0.9",
                          "[::1]", "[::1]:8080", "192.168.7.7", "192.168.7.7:80", "8.8.8.8", "[2001:db8::1]:443"}) {
    EXPECT_TRUE(IsLocalhostOrAddress(own)) << own;
  }
  for (const char* other : {"evil.example",
                            "evil.example:8080",
                            "localhost.evil.example",
                            "127.0.0.1.evil.example",
                            "127.0.0.1.evil.example:80",
                            "localhost@evil.example",
                            "evil.example:80@127.0.0.1",
                            "localhost:x",
                            "127.1",
                            "2130706433",
                            "0x7f.0.0.1",
                            "::1",
                            "[::1",
                            "[::1]evil.example",
                            "[evil.example]",
                            "[::1]:80:80",
                            "[127.0.0.1]",
                            "localhost.",
                            "foo.localhost",
                            ":80"}) {
    EXPECT_FALSE(IsLocalhostOrAddress(other)) << other;
  }
}

class BrowserGuardTest : public HttpFixture {
 protected:
  std::string Get(const std::string& headers, const std::string& path = "/plain") {
    return Send("GET " + path + " HTTP/1.1\r\n" + headers + "Connection: close\r\n\r\n");
  }
  // The status of a POST with these headers: 200 if a handler got it.
  std::string Post(const std::string& headers, const std::string& path = "/calls") {
    RawClient client = Connect();
    client.Send("POST " + path + " HTTP/1.1\r\n" + headers + "Content-Length: 2\r\nConnection: close\r\n\r\n{}");
    if (const std::string early = client.HasInput(100) ? client.ReadAll() : ""; !early.empty())
      return early.substr(9, 3);
    Handler(num_posts_++)->WaitForExchange()->Respond({200, kPlainText, "ok\n"});
    return client.ReadAll().substr(9, 3);
  }

 private:
  size_t num_posts_ = 0;
};

TEST_F(BrowserGuardTest, ANameThatIsNotTheServersIsMisdirectedOnEveryPath) {
  Start({}, {}, {"dunlin.example", "Other"});
  for (const char* path : {"/plain", "/items/x", "/nowhere", "/calls"}) {
    EXPECT_THAT(Get("Host: evil.example\r\n", path), StartsWith("HTTP/1.1 421 ")) << path;
  }
  EXPECT_THAT(Get("Host: evil.example:8080\r\n", "/items/x"),
              AllOf(EndsWith("Host is \"evil.example:8080\"; limit is localhost, an IP address or a name of "
                             "listen.http_host_names\n")));
  EXPECT_THAT(Get("Host: evil.example\r\n"), HasSubstr(R"({"refused":"Host is)")) << "in the form of the route";
  EXPECT_EQ(Post("Host: evil.example\r\nContent-Type: application/json\r\n"), "421");
  EXPECT_THAT(Send("OPTIONS /calls HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n"),
              StartsWith("HTTP/1.1 421 "));
  EXPECT_THAT(Send("GET http://evil.example/plain HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"),
              StartsWith("HTTP/1.1 421 "))
      << "the target's name counts";
  for (const char* host : {"Host: localhost:1\r\n", "Host: 10.0.0.7:8080\r\n", "Host: [::1]\r\n",
                           "Host: DUNLIN.example:80\r\n", "Host: other\r\n", "Host:\r\n", ""}) {
    EXPECT_THAT(Get(host), StartsWith("HTTP/1.1 200 ")) << host;
  }
  EXPECT_THAT(Send("GET /plain HTTP/1.0\r\n\r\n"), StartsWith("HTTP/1.1 200 ")) << "no browser leaves Host out";
  Start({}, {}, {"*"});
  EXPECT_THAT(Get("Host: any.example\r\n"), StartsWith("HTTP/1.1 200 "));
}

TEST_F(BrowserGuardTest, APageOfAnotherSiteIsRefusedUnlessItsOriginIsAllowed) {
  Start({}, {"https://chat.example"});
  const std::string host = "Host: localhost:8080\r\n";
  for (const char* site : {"cross-site", "same-site", "anything"}) {
    const std::string header = host + "Sec-Fetch-Site: " + site + "\r\n";
    for (const char* path : {"/plain", "/items/x", "/nowhere"}) {
      EXPECT_THAT(Get(header, path), StartsWith("HTTP/1.1 403 ")) << site << path;
    }
    EXPECT_EQ(Post(header + "Content-Type: application/json\r\n"), "403");
    EXPECT_EQ(Post(header + "Origin: https://evil.example\r\nContent-Type: application/json\r\n"), "403");
    EXPECT_EQ(Post(header + "Origin: https://chat.example\r\nContent-Type: application/json\r\n"), "200");
    EXPECT_THAT(Get(header + "Origin: https://chat.example\r\n"), StartsWith("HTTP/1.1 200 "));
  }
  for (const char* site : {"same-origin", "none"}) {
    EXPECT_THAT(Get(host + "Sec-Fetch-Site: " + site + "\r\n"), StartsWith("HTTP/1.1 200 "));
  }
  const std::string json = host + "Content-Type: application/json\r\n";
  EXPECT_EQ(Post(json + "Origin: https://evil.example\r\n"), "403") << "a browser that does not tell of sites";
  EXPECT_EQ(Post(json + "Origin: null\r\n"), "403");
  EXPECT_EQ(Post(json + "Origin: http://localhost:80800\r\n"), "403");
  EXPECT_EQ(Post(json + "Origin: http://localhost:8080\r\n"), "200") << "the server's own";
  EXPECT_EQ(Post(json + "Origin: https://chat.example\r\n"), "200");
  EXPECT_THAT(
      Get(host + "Sec-Fetch-Site: cross-site\r\nOrigin: https://evil.example\r\n", "/items/x"),
      EndsWith("the request comes from a web page of another site, whose origin is \"https://evil.example\"; limit "
               "is listen.http_cors_origins\n"));
}

TEST_F(BrowserGuardTest, ABodyIsJsonUnlessNoBrowserCanHaveSentIt) {
  Start({}, {"*"});
  for (const char* type : {"application/json", "Application/JSON; charset=utf-8", "application/vnd.api+json"}) {
    EXPECT_EQ(Post(std::string("Content-Type: ") + type + "\r\nUser-Agent: Mozilla/5.0\r\n"), "200") << type;
  }
  for (const char* type : {"text/plain", "text/plain; charset=application/json", "multipart/form-data; boundary=x",
                           "application/octet-stream", "application/jsonp", "json", "text/json"}) {
    EXPECT_EQ(Post(std::string("Content-Type: ") + type + "\r\n"), "415") << type;
  }
  const std::string form = "Content-Type: application/x-www-form-urlencoded\r\n";
  EXPECT_EQ(Post(form + "User-Agent: curl/8.9.1\r\n"), "200") << "curl -d";
  EXPECT_EQ(Post(""), "200") << "Triton's clients send no type";
  for (const char* sign :
       {"Origin: https://a.example\r\n", "Referer: https://a.example/\r\n", "Sec-Fetch-Mode: no-cors\r\n",
        "Sec-CH-UA: x\r\n", "User-Agent: Mozilla/5.0 (X11)\r\n", "user-agent: opera/9.80\r\n"}) {
    EXPECT_EQ(Post(form + sign), "415") << sign;
    EXPECT_EQ(Post(sign), "415") << sign;
  }
  EXPECT_EQ(Post("Content-Type: application/json\r\nContent-Type: text/plain\r\n"), "415");
}

TEST_F(BrowserGuardTest, KeysAreTheGuardWhereThereAreAny) {
  Start();
  has_keys_ = true;
  EXPECT_THAT(Get("Host: any.example\r\nSec-Fetch-Site: cross-site\r\n"), StartsWith("HTTP/1.1 200 "));
  EXPECT_EQ(Post("Host: any.example\r\nContent-Type: text/plain\r\n"), "200");
}

}  // namespace
}  // namespace dunlin::server

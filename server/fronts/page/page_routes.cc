// SPDX-License-Identifier: Apache-2.0
#include "server/fronts/page/page_routes.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "engine/base/string_view.h"
#include "server/fronts/page/model_document.h"
#include "server/fronts/page/page_files.h"
#include "server/http_calls/caller.h"
#include "server/http_calls/http_status.h"
#include "server/serving/resolve/key_limits.h"

namespace dunlin::server::page {
namespace {

constexpr char kIndex[] = "index.html";

// Nothing but this server's own files and calls; no frame around it, no form that leaves it.
constexpr char kContentSecurityPolicy[] =
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

// Whether the client takes gzip: its coding, or "*", in Accept-Encoding without a weight of 0. Source: RFC 9110,
// section 12.5.3.
bool TakesGzip(std::string_view accepted) {
  for (const absl::string_view item : absl::StrSplit(engine::AbslView(accepted), ',')) {
    const std::vector<absl::string_view> parts = absl::StrSplit(item, ';');
    const absl::string_view coding = absl::StripAsciiWhitespace(parts.front());
    if (!absl::EqualsIgnoreCase(coding, "gzip") && coding != "*") continue;
    if (parts.size() < 2) return true;
    const absl::string_view weight = absl::StripAsciiWhitespace(parts[1]);
    double value = 0;
    return absl::StartsWithIgnoreCase(weight, "q=") && absl::SimpleAtod(weight.substr(2), &value) && value > 0;
  }
  return false;
}

// Whether If-None-Match names the entity tag, weakly compared. Source: RFC 9110, section 13.1.2.
bool Names(std::string_view if_none_match, std::string_view etag) {
  for (absl::string_view item : absl::StrSplit(engine::AbslView(if_none_match), ',')) {
    item = absl::StripAsciiWhitespace(item);
    if (item == "*") return true;
    if (absl::StartsWith(item, "W/")) item.remove_prefix(2);
    if (engine::StdView(item) == etag) return true;
  }
  return false;
}

HttpReply FileReply(const HttpRequest& request, const PageFile& file) {
  const bool gzip = TakesGzip(request.header("Accept-Encoding"));
  const std::string etag = absl::StrCat("\"", engine::AbslView(file.digest), gzip ? "-gzip\"" : "\"");
  HttpReply reply;
  // "no-cache": kept, but asked for by its tag each time, so that a new server's page is never mixed with an old one's.
  reply.headers = {{"ETag", etag},
                   {"Cache-Control", "no-cache"},
                   {"Vary", "Accept-Encoding"},
                   {"Content-Security-Policy", kContentSecurityPolicy},
                   {"X-Content-Type-Options", "nosniff"},
                   {"Referrer-Policy", "no-referrer"},
                   {"Cross-Origin-Opener-Policy", "same-origin"},
                   {"Cross-Origin-Resource-Policy", "same-origin"}};
  if (Names(request.header("If-None-Match"), etag)) {
    reply.status = kNotModified;
    return reply;
  }
  reply.content_type = file.content_type;
  reply.body = gzip ? file.gzip : file.bytes;
  if (gzip) reply.headers.push_back({"Content-Encoding", "gzip"});
  return reply;
}

HttpReply NamedFileReply(const HttpRequest& request, std::string_view name) {
  const std::span<const PageFile> files = PageFiles();
  const auto found =
      std::find_if(files.begin(), files.end(), [name](const PageFile& file) { return file.name == name; });
  if (found != files.end()) return FileReply(request, *found);
  return {kNotFound, kPlainText, "not found: the page has no such file; / is the page\n"};
}

HttpReply DocumentReply(const HttpRequest& request, std::string document) {
  HttpReply reply = OkReply(kJsonText, EchoedRequestIdOf(request));
  reply.headers.push_back({"Cache-Control", "no-store"});
  reply.body = std::move(document);
  return reply;
}

}  // namespace

std::vector<HttpRoute> PageRoutes(const PageSources& sources) {
  return {
      {"GET", "/", [](const HttpRequest& request) { return NamedFileReply(request, kIndex); }},
      {"GET", "/page/{file}", [](const HttpRequest& request) { return NamedFileReply(request, request.parameter); }},
      {"GET", "/status/models",
       [sources](const HttpRequest& request) {
         const ServerFacts facts{sources.version, sources.cpu_variant};
         return DocumentReply(request, ModelsDocument(facts, ModelsFor(*sources.core, request.caller), request.caller));
       }},
      {"GET", "/status/profiles",
       [sources](const HttpRequest& request) {
         return DocumentReply(request, sources.statistics->Document(ModelsFor(*sources.core, request.caller)));
       }},
  };
}

}  // namespace dunlin::server::page

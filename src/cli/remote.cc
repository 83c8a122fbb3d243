#include "cli/remote.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <memory>
#include <utility>
#include <vector>

#include "server/http_client.h"
#include "server/json_text.h"

namespace sprat::cli {
namespace {

using server::HttpClient;
using server::HttpReply;
using simdjson::dom::element;

constexpr size_t kTextsOfRequest{64};
constexpr size_t kBytesOfRequest{1 << 20};
constexpr size_t kQuotedBytes{300};

static_assert(std::endian::native == std::endian::little, "base64 carries little-endian f32");

Error BadReply(const std::string& url, const std::string& what) {
  return Error(ErrorCode::kIo, url + ": " + what);
}

// What the server says about its refusal, if it is one.
Result<void> CheckStatus(const std::string& url, const HttpReply& reply) {
  if (reply.status == 200) return {};
  simdjson::dom::parser parser;
  std::string_view message;
  const auto root = parser.parse(reply.body);
  if (root["error"]["message"].get(message) && root["error"].get(message)) {
    message = std::string_view(reply.body).substr(0, kQuotedBytes);
  }
  return BadReply(url, fmt::format("HTTP {}: {}", reply.status, message));
}

Result<std::string> ReadKey(const std::string& file) {
  if (file.empty()) return std::string();
  std::ifstream lines(file);
  if (!lines) return Error(ErrorCode::kNotFound, file + ": cannot be read");
  for (std::string line; std::getline(lines, line);) {
    const size_t first = line.find_first_not_of(" \t\r");
    if (first == std::string::npos || line[first] == '#') continue;
    return line.substr(first, line.find_last_not_of(" \t\r") + 1 - first);
  }
  return Error(ErrorCode::kInvalidArgument, file + ": there is no key in it");
}

// The one model that the server lists; "" if it lists none.
Result<std::string> OnlyModel(const std::string& url, HttpClient& client) {
  Result<HttpReply> reply = client.Get("/models");
  if (!reply.ok()) return std::move(reply.error());
  if (reply.value().status == 404) return std::string();
  if (Result<void> good = CheckStatus(url, reply.value()); !good.ok()) {
    return std::move(good.error());
  }
  simdjson::dom::parser parser;
  simdjson::dom::array list;
  if (parser.parse(reply.value().body)["data"].get(list)) {
    return BadReply(url, "the list of models is not of OpenAI's form");
  }
  std::string names;
  std::string_view name;
  for (const element model : list) {
    if (model["id"].get(name)) return BadReply(url, "a listed model has no id");
    names.append(names.empty() ? "'" : ", '").append(name).append("'");
  }
  if (list.size() > 1) {
    return Error(
        ErrorCode::kInvalidArgument,
        url + ": several models are served, choose one with " + "--served-model: " + names);
  }
  return std::string(name);
}

// Appends the f32 that the base64 holds. False if it is none.
bool AppendBase64Floats(std::string_view text, std::vector<float>& values) {
  std::string bytes;
  uint32_t bits = 0;
  size_t digits = 0;
  while (text.ends_with('=')) text.remove_suffix(1);
  for (const char c : text) {
    constexpr std::string_view kDigits{
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"};
    const size_t digit = kDigits.find(c);
    if (digit == std::string_view::npos) return false;
    bits = bits << 6 | static_cast<uint32_t>(digit);
    if (++digits % 4 == 1) continue;
    bytes += static_cast<char>(bits >> (4 - digits % 4) % 4 * 2);
  }
  if (bytes.size() % sizeof(float) != 0) return false;
  const size_t before = values.size();
  values.resize(before + bytes.size() / sizeof(float));
  std::memcpy(values.data() + before, bytes.data(), bytes.size());
  return true;
}

// Appends a vector, which may come as base64 or as numbers.
bool AppendRow(const element& embedding, std::vector<float>& values) {
  std::string_view base64;
  if (!embedding.get(base64)) return AppendBase64Floats(base64, values);
  simdjson::dom::array numbers;
  if (embedding.get(numbers)) return false;
  for (const element number : numbers) {
    double value = 0;
    if (number.get(value)) return false;
    values.push_back(static_cast<float>(value));
  }
  return true;
}

class Remote {
 public:
  Remote(const RemoteOptions& options, HttpClient client)
      : options_(options), client_(std::move(client)) {}

  Result<void> FindModel() {
    if (!options_.model.empty()) return {};
    Result<std::string> name = OnlyModel(options_.url, client_);
    if (!name.ok()) return std::move(name.error());
    options_.model = std::move(name).value();
    return {};
  }

  Result<void> Fetch(std::span<const std::string_view> texts, Matrix& rows) {
    while (!texts.empty()) {
      size_t count = 0;
      for (size_t bytes = 0; count < std::min(kTextsOfRequest, texts.size()); ++count) {
        bytes += texts[count].size();
        if (count > 0 && bytes > kBytesOfRequest) break;
      }
      Result<void> fetched = FetchSome(texts.first(count), rows);
      if (!fetched.ok()) return fetched;
      texts = texts.subspan(count);
    }
    return {};
  }

 private:
  std::string Body(std::span<const std::string_view> texts) const;
  Result<void> FetchSome(std::span<const std::string_view> texts, Matrix& rows);

  RemoteOptions options_;
  HttpClient client_;
};

std::string Remote::Body(std::span<const std::string_view> texts) const {
  std::string body = R"({"encoding_format":"base64","input":[)";
  for (size_t i = 0; i < texts.size(); ++i) {
    if (i > 0) body += ',';
    server::AppendJsonString(options_.embed.prompt.value_or("").append(texts[i]), body);
  }
  body += ']';
  const auto string = [&body](std::string_view name, std::string_view value) {
    body += fmt::format(",\"{}\":", name);
    server::AppendJsonString(value, body);
  };
  if (!options_.model.empty()) string("model", options_.model);
  if (options_.embed.prompt_name) string("prompt_name", *options_.embed.prompt_name);
  if (options_.embed.dimensions) {
    body += fmt::format(",\"dimensions\":{}", *options_.embed.dimensions);
  }
  return body + '}';
}

Result<void> Remote::FetchSome(std::span<const std::string_view> texts, Matrix& rows) {
  const std::string& url = options_.url;
  Result<HttpReply> reply = client_.Post("/embeddings", Body(texts));
  if (!reply.ok()) return std::move(reply.error());
  if (Result<void> good = CheckStatus(url, reply.value()); !good.ok()) return good;
  simdjson::dom::parser parser;
  simdjson::dom::array data;
  if (parser.parse(reply.value().body)["data"].get(data)) {
    return BadReply(url, "the answer is not of OpenAI's form");
  }
  if (data.size() != texts.size()) {
    return BadReply(url, fmt::format("{} vectors for {} texts", data.size(), texts.size()));
  }
  for (const element row : data) {
    const size_t before = rows.values.size();
    element embedding;
    if (row["embedding"].get(embedding) || !AppendRow(embedding, rows.values)) {
      return BadReply(url, "a vector that is neither numbers nor base64 of f32");
    }
    const size_t columns = rows.values.size() - before;
    if (rows.rows == 0) rows.columns = columns;
    if (columns != rows.columns) {
      return BadReply(url,
                      fmt::format("vectors of {} and of {} dimensions", rows.columns, columns));
    }
    ++rows.rows;
  }
  return {};
}

}  // namespace

Result<FetchVectors> OpenRemote(const RemoteOptions& options) {
  Result<server::Url> url = server::ParseUrl(options.url);
  if (!url.ok()) return std::move(url.error());
  std::string& prefix = url.value().prefix;
  if (prefix.ends_with("/embeddings")) prefix.resize(prefix.size() - 11);
  if (!prefix.ends_with("/v1")) prefix += "/v1";
  Result<std::string> key = ReadKey(options.api_key_file);
  if (!key.ok()) return std::move(key.error());
  // Shared by the copies that a std::function makes of itself.
  const auto remote = std::make_shared<Remote>(
      options, HttpClient(std::move(url).value(), {.api_key = std::move(key).value()}));
  if (Result<void> found = remote->FindModel(); !found.ok()) return std::move(found.error());
  return FetchVectors([remote](std::span<const std::string_view> texts, Matrix& rows) {
    return remote->Fetch(texts, rows);
  });
}

}  // namespace sprat::cli

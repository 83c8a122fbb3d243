// JSON bodies of the embedding routes, read with simdjson into what the engine wants.
#ifndef SPRAT_SERVER_REQUEST_BODY_H_
#define SPRAT_SERVER_REQUEST_BODY_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "server/api_error.h"
#include "sprat/engine.h"

namespace sprat::server {

// A value, or what to tell the client instead.
template <typename T>
using Parsed = std::variant<T, ApiError>;

struct BodyLimits {
  size_t items = 2048;     // texts in a request
  size_t json_depth = 16;  // arrays and objects inside each other
};

// Texts, or token ids of the served model: one of the two.
struct TextInput {
  std::vector<std::string_view> texts;
  std::vector<uint32_t> ids;  // of all sequences, end to end
  std::vector<size_t> offsets;
  bool is_tokens = false;
  bool is_list = false;  // several inputs were given as a list, even if it has one entry

  size_t size() const { return is_tokens ? offsets.size() - 1 : texts.size(); }
};

// POST /v1/embeddings.
struct OpenAiRequest {
  TextInput input;
  std::string_view model;  // "" if absent
  bool base64 = false;
  EmbedOptions options;
};

// POST /embed and /embed_all.
struct TeiEmbedRequest {
  TextInput input;
  EmbedOptions options;
};

// POST /similarity.
struct TeiSimilarityRequest {
  std::vector<std::string_view> texts;  // the source sentence, then the sentences
  EmbedOptions options;
};

// POST /tokenize.
struct TeiTokenizeRequest {
  std::vector<std::string_view> texts;
  bool add_special_tokens = true;
  EmbedOptions options;
};

// POST /decode.
struct TeiDecodeRequest {
  TextInput input;  // is_tokens
  bool skip_special_tokens = true;
};

// Each reads one body. A field that is null is absent; an unknown field is ignored; a known field
// that is there twice is an error, for readers of JSON differ in which of the two they would take.
// Errors: 400 for bodies that are not JSON, not UTF-8, or out of range; wrong types and empty lists
// are 400 for OpenAI and 422 for TEI. They name the field and never quote bytes of the body.
//
// `body` must have kBodyPadding readable bytes behind its end. The views in the result live until
// the next call on the same thread.
constexpr size_t kBodyPadding{64};
Parsed<OpenAiRequest> ParseOpenAi(std::string_view body, const BodyLimits& limits);
Parsed<TeiEmbedRequest> ParseTeiEmbed(std::string_view body, const BodyLimits& limits);
Parsed<TeiSimilarityRequest> ParseTeiSimilarity(std::string_view body, const BodyLimits& limits);
Parsed<TeiEmbedRequest> ParseTeiEmbedAll(std::string_view body, const BodyLimits& limits);
Parsed<TeiTokenizeRequest> ParseTeiTokenize(std::string_view body, const BodyLimits& limits);
Parsed<TeiDecodeRequest> ParseTeiDecode(std::string_view body, const BodyLimits& limits);

}  // namespace sprat::server

#endif  // SPRAT_SERVER_REQUEST_BODY_H_

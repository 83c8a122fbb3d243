#include "server/request_body.h"

#include <simdjson.h>

#include <limits>
#include <utility>

#include "base/json_numbers.h"

namespace sprat::server {
namespace {

using simdjson::dom::element;
using simdjson::dom::element_type;

constexpr size_t kKeptCapacity{1 << 20};  // bytes

static_assert(kBodyPadding >= simdjson::SIMDJSON_PADDING);

std::string TypeName(const element& value) {
  switch (value.type()) {
    case element_type::ARRAY:
      return "an array";
    case element_type::OBJECT:
      return "an object";
    case element_type::STRING:
      return "a string";
    case element_type::BOOL:
      return "a boolean";
    case element_type::NULL_VALUE:
      return "null";
    default:
      return "a number";
  }
}

// Reads the fields of one body. The first fault is kept; what is read after it does not matter.
class Reader {
 public:
  Reader(ApiStyle style, const BodyLimits& limits) : style_(style), limits_(limits) {}

  bool failed() const { return error_.has_value(); }
  ApiError TakeError() { return std::move(*error_); }

  // A wrong type or an empty list.
  void TypeFault(const std::string& field, const std::string& message) {
    Fault(style_ == ApiStyle::kTei ? 422 : 400, field, message);
  }
  void RangeFault(const std::string& field, const std::string& message) {
    Fault(400, field, message);
  }

  // The object that the body is.
  std::optional<simdjson::dom::object> Object(std::string_view body);
  // The field's value; nullopt if it is absent or null.
  std::optional<element> Field(const simdjson::dom::object& object, const char* name);

  std::optional<bool> Bool(const simdjson::dom::object& object, const char* name);
  std::optional<std::string_view> String(const simdjson::dom::object& object, const char* name);
  void Dimensions(const simdjson::dom::object& object, EmbedOptions& options);
  void CommonOptions(const simdjson::dom::object& object, EmbedOptions& options);

  // string | string[] | int[] | int[][]
  void Input(const std::optional<element>& value, const char* name, TextInput& input);
  // int[] | int[][], of at least one entry
  void TokenIds(const simdjson::dom::array& values, const char* name, TextInput& input);
  // string[]
  void Strings(const element& value, const char* name, std::vector<std::string_view>& texts);

 private:
  void Fault(int status, const std::string& field, const std::string& message) {
    if (failed()) return;
    error_ = BadRequest("'" + field + "' " + message, field);
    error_->status = status;
  }
  void CheckCount(size_t count, const char* name);
  void Ids(const simdjson::dom::array& values, const std::string& name, TextInput& input);

  const ApiStyle style_;
  const BodyLimits& limits_;
  std::optional<ApiError> error_;
};

// text: with kBodyPadding readable bytes behind its end.
simdjson::error_code Parse(std::string_view text, size_t depth, simdjson::dom::parser& parser,
                           element& root) {
  if (parser.capacity() < text.size() || parser.max_depth() != depth) {
    const simdjson::error_code fault = parser.allocate(text.size(), depth);
    if (fault) return fault;
  }
  return parser.parse(text.data(), text.size(), false).get(root);
}

std::optional<simdjson::dom::object> Reader::Object(std::string_view body) {
  // One parser a thread: it owns the strings of the body until its next one.
  thread_local simdjson::dom::parser parser;
  // What a large body needed is given back at the next small one.
  if (parser.capacity() > kKeptCapacity && body.size() <= kKeptCapacity) {
    parser = simdjson::dom::parser();
  }
  if (body.empty()) {
    error_ = BadRequest("the body is empty, expected a JSON object");
    return std::nullopt;
  }
  // simdjson counts the root's scope too, and refuses at the limit instead of beyond it.
  const size_t depth = limits_.json_depth + 1;
  element root;
  simdjson::error_code fault = Parse(body, depth, parser, root);
  if (fault) {  // perhaps for a number, which may be in a field that nobody asks for
    if (std::optional<std::string> readable = WithLargeNumbersAsReals(body)) {
      readable->reserve(readable->size() + kBodyPadding);
      fault = Parse(*readable, depth, parser, root);
    }
  }
  if (fault == simdjson::DEPTH_ERROR) {
    error_ = BadRequest("the body is nested too deep, expected at most " +
                        std::to_string(limits_.json_depth) + " levels");
  } else if (fault) {
    error_ = BadRequest("the body is not JSON: " + std::string(simdjson::error_message(fault)));
  } else if (!root.is_object()) {
    TypeFault("body", "must be a JSON object, got " + TypeName(root));
  }
  if (failed()) return std::nullopt;
  return simdjson::dom::object(root);
}

std::optional<element> Reader::Field(const simdjson::dom::object& object, const char* name) {
  std::optional<element> found;
  for (const auto [key, value] : object) {
    if (key != name) continue;
    if (found.has_value()) RangeFault(name, "is given twice");
    found = value;
  }
  if (found.has_value() && found->is_null()) return std::nullopt;
  return found;
}

std::optional<bool> Reader::Bool(const simdjson::dom::object& object, const char* name) {
  const std::optional<element> value = Field(object, name);
  if (!value.has_value()) return std::nullopt;
  if (!value->is_bool()) {
    TypeFault(name, "must be true or false, got " + TypeName(*value));
    return std::nullopt;
  }
  return bool(*value);
}

std::optional<std::string_view> Reader::String(const simdjson::dom::object& object,
                                               const char* name) {
  const std::optional<element> value = Field(object, name);
  if (!value.has_value()) return std::nullopt;
  if (!value->is_string()) {
    TypeFault(name, "must be a string, got " + TypeName(*value));
    return std::nullopt;
  }
  return std::string_view(*value);
}

void Reader::Dimensions(const simdjson::dom::object& object, EmbedOptions& options) {
  const std::optional<element> value = Field(object, "dimensions");
  if (!value.has_value()) return;
  if (!value->is_int64()) {
    TypeFault("dimensions", "must be an integer, got " + TypeName(*value) +
                                (value->is_number() ? " that is none or too large" : ""));
  } else if (int64_t(*value) < 1) {
    RangeFault("dimensions", "must be at least 1, got " + std::to_string(int64_t(*value)));
  } else {
    options.dimensions = static_cast<size_t>(int64_t(*value));
  }
}

void Reader::CommonOptions(const simdjson::dom::object& object, EmbedOptions& options) {
  if (const auto name = String(object, "prompt_name"); name.has_value()) {
    options.prompt_name = std::string(*name);
  }
  options.truncate = Bool(object, "truncate").value_or(true);
  const auto direction = String(object, "truncation_direction");
  if (direction.has_value() && *direction != "right" && *direction != "Right") {
    RangeFault("truncation_direction", "must be \"Right\": texts are cut at their end");
  }
}

void Reader::CheckCount(size_t count, const char* name) {
  if (count == 0) {
    TypeFault(name, "must not be empty");
  } else if (count > limits_.items) {
    RangeFault(name, "has " + std::to_string(count) + " entries, expected at most " +
                         std::to_string(limits_.items));
  }
}

void Reader::Ids(const simdjson::dom::array& values, const std::string& name, TextInput& input) {
  size_t at = 0;
  for (const element value : values) {
    const std::string where = name + "[" + std::to_string(at++) + "]";
    uint64_t id = 0;
    if (value.get(id) || id > std::numeric_limits<uint32_t>::max()) {
      return TypeFault(where, "must be a token id, a whole number from 0 on" +
                                  (value.is_number() ? std::string(", and is none")
                                                     : ", got " + TypeName(value)));
    }
    input.ids.push_back(static_cast<uint32_t>(id));
  }
  if (at == 0) return TypeFault(name, "must not be empty");
  input.offsets.push_back(input.ids.size());
}

void Reader::Strings(const element& value, const char* name, std::vector<std::string_view>& texts) {
  if (!value.is_array()) {
    return TypeFault(name, "must be an array of strings, got " + TypeName(value));
  }
  const simdjson::dom::array values(value);
  CheckCount(values.size(), name);
  if (failed()) return;
  for (const element text : values) {
    if (!text.is_string()) {
      return TypeFault(std::string(name) + "[" + std::to_string(texts.size()) + "]",
                       "must be a string, got " + TypeName(text));
    }
    texts.emplace_back(text);
  }
}

void Reader::Input(const std::optional<element>& value, const char* name, TextInput& input) {
  if (!value.has_value()) return TypeFault(name, "is missing");
  if (value->is_string()) {
    input.texts.emplace_back(*value);
    return;
  }
  if (!value->is_array()) {
    return TypeFault(
        name, "must be a string, an array of strings, or token ids, got " + TypeName(*value));
  }
  const simdjson::dom::array values(*value);
  if (values.size() == 0) return TypeFault(name, "must not be empty");
  const element first = *values.begin();
  if (!first.is_number() && !first.is_array()) {
    input.is_list = true;
    return Strings(*value, name, input.texts);
  }
  TokenIds(values, name, input);
}

void Reader::TokenIds(const simdjson::dom::array& values, const char* name, TextInput& input) {
  const element first = *values.begin();
  if (!first.is_number() && !first.is_array()) {
    return TypeFault(name, "must be an array of token ids, or of such arrays");
  }
  input.is_tokens = true;
  input.offsets.assign(1, 0);
  if (first.is_number()) return Ids(values, name, input);  // one input
  input.is_list = true;
  CheckCount(values.size(), name);
  for (const element sequence : values) {
    if (failed()) return;
    const std::string where =
        std::string(name) + "[" + std::to_string(input.offsets.size() - 1) + "]";
    if (!sequence.is_array()) {
      return TypeFault(where,
                       "must be an array of token ids like the first, got " + TypeName(sequence));
    }
    Ids(simdjson::dom::array(sequence), where, input);
  }
}

// Reads a body: read(reader, object, request) takes what it knows of the object that the body is.
template <typename Request, typename Read>
Parsed<Request> ParseBody(ApiStyle style, std::string_view body, const BodyLimits& limits,
                          const Read& read) {
  Reader reader(style, limits);
  Request request;
  if (const auto object = reader.Object(body)) read(reader, *object, request);
  if (reader.failed()) return reader.TakeError();
  return request;
}

void ReadOpenAi(Reader& reader, const simdjson::dom::object& object, OpenAiRequest& request) {
  reader.Input(reader.Field(object, "input"), "input", request.input);
  request.model = reader.String(object, "model").value_or("");
  const auto encoding = reader.String(object, "encoding_format");
  if (encoding.has_value() && *encoding != "float" && *encoding != "base64") {
    reader.RangeFault("encoding_format", "must be \"float\" or \"base64\"");
  }
  request.base64 = encoding == "base64";
  reader.String(object, "user");
  reader.Dimensions(object, request.options);
  reader.CommonOptions(object, request.options);
}

void ReadEmbed(Reader& reader, const simdjson::dom::object& object, TeiEmbedRequest& request) {
  reader.Input(reader.Field(object, "inputs"), "inputs", request.input);
  request.options.normalize = reader.Bool(object, "normalize").value_or(true);
  reader.Dimensions(object, request.options);
  reader.CommonOptions(object, request.options);
}

void ReadEmbedAll(Reader& reader, const simdjson::dom::object& object, TeiEmbedRequest& request) {
  reader.Input(reader.Field(object, "inputs"), "inputs", request.input);
  reader.CommonOptions(object, request.options);
}

void ReadDecode(Reader& reader, const simdjson::dom::object& object, TeiDecodeRequest& request) {
  const std::optional<element> ids = reader.Field(object, "ids");
  if (!ids.has_value()) {
    reader.TypeFault("ids", "is missing");
  } else if (!ids->is_array() || simdjson::dom::array(*ids).size() == 0) {
    reader.TypeFault("ids", "must be an array of token ids, or of such arrays, with an entry");
  } else {
    reader.TokenIds(simdjson::dom::array(*ids), "ids", request.input);
  }
  request.skip_special_tokens = reader.Bool(object, "skip_special_tokens").value_or(true);
}

void ReadSimilarity(Reader& reader, const simdjson::dom::object& object,
                    TeiSimilarityRequest& request) {
  request.options.normalize = true;  // cosines, also of a model that does not
  const std::optional<element> inputs = reader.Field(object, "inputs");
  if (!inputs.has_value() || !inputs->is_object()) {
    return reader.TypeFault("inputs", "must be an object with source_sentence and sentences");
  }
  const simdjson::dom::object pair(*inputs);
  const auto source = reader.String(pair, "source_sentence");
  if (!source.has_value()) reader.TypeFault("inputs.source_sentence", "is missing");
  request.texts.push_back(source.value_or(""));
  if (const auto sentences = reader.Field(pair, "sentences"); sentences.has_value()) {
    std::vector<std::string_view> texts;
    reader.Strings(*sentences, "inputs.sentences", texts);
    request.texts.insert(request.texts.end(), texts.begin(), texts.end());
  } else {
    reader.TypeFault("inputs.sentences", "is missing");
  }
  if (const auto parameters = reader.Field(object, "parameters"); parameters.has_value()) {
    if (parameters->is_object()) {
      reader.CommonOptions(simdjson::dom::object(*parameters), request.options);
    } else {
      reader.TypeFault("parameters", "must be an object, got " + TypeName(*parameters));
    }
  }
}

void ReadTokenize(Reader& reader, const simdjson::dom::object& object,
                  TeiTokenizeRequest& request) {
  const std::optional<element> inputs = reader.Field(object, "inputs");
  if (!inputs.has_value()) {
    reader.TypeFault("inputs", "is missing");
  } else if (inputs->is_string()) {
    request.texts.emplace_back(*inputs);
  } else {
    reader.Strings(*inputs, "inputs", request.texts);
  }
  request.add_special_tokens = reader.Bool(object, "add_special_tokens").value_or(true);
  reader.CommonOptions(object, request.options);
}

}  // namespace

Parsed<OpenAiRequest> ParseOpenAi(std::string_view body, const BodyLimits& limits) {
  return ParseBody<OpenAiRequest>(ApiStyle::kOpenAi, body, limits, ReadOpenAi);
}

Parsed<TeiEmbedRequest> ParseTeiEmbed(std::string_view body, const BodyLimits& limits) {
  return ParseBody<TeiEmbedRequest>(ApiStyle::kTei, body, limits, ReadEmbed);
}

Parsed<TeiEmbedRequest> ParseTeiEmbedAll(std::string_view body, const BodyLimits& limits) {
  return ParseBody<TeiEmbedRequest>(ApiStyle::kTei, body, limits, ReadEmbedAll);
}

Parsed<TeiDecodeRequest> ParseTeiDecode(std::string_view body, const BodyLimits& limits) {
  return ParseBody<TeiDecodeRequest>(ApiStyle::kTei, body, limits, ReadDecode);
}

Parsed<TeiSimilarityRequest> ParseTeiSimilarity(std::string_view body, const BodyLimits& limits) {
  return ParseBody<TeiSimilarityRequest>(ApiStyle::kTei, body, limits, ReadSimilarity);
}

Parsed<TeiTokenizeRequest> ParseTeiTokenize(std::string_view body, const BodyLimits& limits) {
  return ParseBody<TeiTokenizeRequest>(ApiStyle::kTei, body, limits, ReadTokenize);
}

}  // namespace sprat::server

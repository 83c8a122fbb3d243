#include "cli/json_writer.h"

namespace sprat::cli {
JsonObject& JsonObject::AddRaw(std::string_view key, std::string_view json) {
  if (text_.size() > 1) text_ += ',';
  AppendJsonString(key, text_);
  text_ += ':';
  text_ += json;
  return *this;
}

JsonObject& JsonObject::Add(std::string_view key, std::string_view text) {
  std::string quoted;
  AppendJsonString(text, quoted);
  return AddRaw(key, quoted);
}

}  // namespace sprat::cli

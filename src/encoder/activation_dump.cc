#include "encoder/activation_dump.h"

#include <cstdlib>
#include <fstream>
#include <string>
#include <utility>

namespace sprat {
namespace {

std::string Padded(size_t number, size_t digits) {
  std::string text = std::to_string(number);
  return text.size() < digits ? std::string(digits - text.size(), '0') + text : text;
}

}  // namespace

ActivationDump::ActivationDump() {
  const char* directory = std::getenv("SPRAT_DUMP_DIR");
  if (directory != nullptr) directory_ = directory;
}

void ActivationDump::Begin(size_t first_sequence, MatrixView<const float> embeddings) {
  sequence_ = first_sequence;
  layer_ = 0;
  Write("embeddings", embeddings);
}

void ActivationDump::Layer(MatrixView<const float> x) {
  Write(("layer" + Padded(layer_++, 2)).c_str(), x);
}

void ActivationDump::Write(const char* what, MatrixView<const float> x) {
  const std::string name =
      "call" + Padded(call_, 4) + "_sequence" + Padded(sequence_, 4) + "_" + what + ".npy";
  Result<void> written = WriteNpy(directory_ / name, x);
  if (!written.ok() && !error_.has_value()) {
    error_ = std::move(written.error()).In("SPRAT_DUMP_DIR");
  }
}

Result<void> ActivationDump::TakeError() {
  if (!on()) return {};
  ++call_;
  if (!error_.has_value()) return {};
  Error error = std::move(*error_);
  error_.reset();
  return error;
}

Result<void> WriteNpy(const std::filesystem::path& path, MatrixView<const float> x) {
  std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (" +
                       std::to_string(x.rows) + ", " + std::to_string(x.columns) + "), }";
  constexpr size_t kPreamble{10};  // magic, version, header length
  header.append(63 - (kPreamble + header.size()) % 64, ' ').push_back('\n');
  std::ofstream file(path, std::ios::binary);
  file.write("\x93NUMPY\x01\x00", 8);
  file.put(static_cast<char>(header.size() & 0xff)).put(static_cast<char>(header.size() >> 8));
  file << header;
  for (size_t i = 0; i < x.rows; ++i) {
    file.write(reinterpret_cast<const char*>(x.Row(i)),
               static_cast<std::streamsize>(x.columns * sizeof(float)));
  }
  file.close();
  if (!file) return Error(ErrorCode::kIo, path.string() + ": cannot be written");
  return {};
}

}  // namespace sprat

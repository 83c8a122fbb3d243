// Weights in safetensors files, read in place.
// Format: https://huggingface.co/docs/safetensors (u64 little-endian header length, JSON header,
// then the tensors' bytes).
#ifndef SPRAT_MODEL_SAFETENSORS_H_
#define SPRAT_MODEL_SAFETENSORS_H_

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/mapped_file.h"
#include "sprat/result.h"

namespace sprat {

enum class DType {
  kBool,
  kU8,
  kI8,
  kI16,
  kU16,
  kF16,
  kBF16,
  kI32,
  kU32,
  kF32,
  kF64,
  kI64,
  kU64,
  kF8E4M3,
  kF8E5M2
};

// Size of one element in bytes, and the name that the format gives the type ("F32", "BF16", ...).
size_t ElementBytes(DType dtype);
std::string_view Name(DType dtype);

// A tensor's place in a mapped file; `bytes` may be unaligned for its type.
struct Tensor {
  DType dtype = DType::kF32;
  std::vector<uint64_t> shape;
  std::span<const std::byte> bytes;

  uint64_t elements() const;
};

// The tensors of one checkpoint: one file, or the shards that an index names. The bytes stay mapped
// as long as this object lives.
class TensorFile {
 public:
  // Opens `directory`/model.safetensors or, if there is none, the shards of
  // `directory`/model.safetensors.index.json: the tensors that its weight_map names.
  // Checked before anything is trusted: the header's length against the file's, JSON without
  // duplicate keys, dtype and shape against each tensor's byte range, ranges inside the file, in
  // order and without holes or overlap; shard names are plain file names of `directory`.
  // The header is at most 100 MB and, above 1 MB, at most 1/20 of its file, so that what parsing it
  // allocates is never more than the file's size (or 20 MB).
  // Errors: kNotFound, kIo, kCorrupt, kUnsupported, naming the file and the tensor; a Git LFS
  // pointer, an HTML page and a cut file are named as what they are.
  static Result<TensorFile> OpenDirectory(const std::filesystem::path& directory);

  // One file of any name.
  static Result<TensorFile> OpenFile(const std::filesystem::path& file);

  // nullptr if there is none of this name. Valid as long as this object.
  const Tensor* Find(std::string_view name) const;

  const std::map<std::string, Tensor, std::less<>>& tensors() const { return tensors_; }

  // Where a message should point: the file, or the index of the shards.
  const std::filesystem::path& path() const { return path_; }

  // The file that holds the bytes of `tensor`, one of this object's, and where they start in it:
  // for who reads past the mapping.
  struct Place {
    const std::filesystem::path& file;
    uint64_t offset;
  };
  Place Locate(const Tensor& tensor) const;

  // Gives back the memory of pages of `tensor` that have been read and copied elsewhere.
  void Release(const Tensor& tensor) const;

 private:
  const MappedFile* FileOf(const Tensor& tensor) const;
  static Result<TensorFile> OpenShards(const std::filesystem::path& index);

  std::filesystem::path path_;
  std::vector<MappedFile> files_;
  std::map<std::string, Tensor, std::less<>> tensors_;
};

// Copies a tensor of type F32, F16 or BF16 into `out` as f32 (exact). out.size() must be the number
// of elements. Errors: kUnsupported naming any other type.
Result<void> CopyAsF32(const Tensor& tensor, std::span<float> out);

}  // namespace sprat

#endif  // SPRAT_MODEL_SAFETENSORS_H_

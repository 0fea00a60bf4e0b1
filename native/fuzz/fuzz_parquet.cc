// Any bytes as the footer of a Parquet file.
#include "core/parquet.h"

#include "core/thrift.h"

namespace parquet = ferry::parquet;
namespace thrift = ferry::thrift;

namespace {

constexpr int depth = 20;
// From the file over its row groups, their chunks and the metadata of these to the statistics.
constexpr int read_levels = 7;
constexpr std::uint64_t before = 1 << 20;

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const ferry::Input input(data, size);
  parquet::Footer footer;
  if (!parquet::read_footer(input.span(), before, depth, footer)) return 0;
  // It is a struct, for whoever passes over it, too. The depth is that of what is not read.
  thrift::Reader(input.span(), read_levels + depth).skip(thrift::Kind::structure);
  if (footer.elements > parquet::most_elements || footer.elements > depth) __builtin_trap();
  if (footer.rows.empty() ? !footer.chunks.empty() : footer.chunks.size() % footer.rows.size() != 0) {
    __builtin_trap();
  }
  for (const std::int64_t rows : footer.rows) {
    if (rows < 0) __builtin_trap();
  }
  std::uint64_t stored = 0;
  std::size_t texts = 0;
  for (const parquet::Chunk& chunk : footer.chunks) {
    if (chunk.values < 0 || chunk.unpacked < 0 || chunk.stored < 0 || chunk.start < 0) __builtin_trap();
    stored += static_cast<std::uint64_t>(chunk.stored);
    if (stored > before) __builtin_trap();
    for (const std::string_view name : chunk.path) texts += name.size();
  }
  for (const auto& [key, value] : footer.metadata) texts += key.size + value.size;
  if (texts > size) __builtin_trap();
  return 0;
}

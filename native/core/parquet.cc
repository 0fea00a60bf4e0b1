#include "parquet.h"

#include <algorithm>

#include "json.h"
#include "thrift.h"

namespace ferry::parquet {

namespace {

using thrift::Field;
using thrift::Kind;

[[noreturn]] void refuse() { throw Error(Problem::malformed, 0, "an unusual footer"); }

void require(bool is_usual) {
  if (!is_usual) refuse();
}

// Calls `read` for each element of a list.
template <typename Read>
void each(thrift::Reader& reader, Kind kind, Read read) {
  const thrift::List list = reader.list(kind);
  for (std::uint64_t i = 0; i < list.count; ++i) read(list.kind);
}

// Calls `read` for each struct of a list, of which none is empty.
template <typename Read>
void each_struct(thrift::Reader& reader, Kind kind, Read read) {
  each(reader, kind, [&](Kind element) {
    reader.expect(element, Kind::structure);
    const std::uint64_t start = reader.offset();
    read();
    require(reader.offset() > start + 1);
  });
}

std::string_view text_of(Span bytes) {
  return {reinterpret_cast<const char*>(bytes.data), bytes.size};
}

std::optional<std::int64_t> read_nulls(thrift::Reader& reader) {
  std::optional<std::int64_t> nulls;
  for (Field field; reader.next(field);) {
    if (field.number == 3) {
      nulls = reader.integer(field.kind);
    } else {
      reader.skip(field.kind);
    }
  }
  return nulls;
}

// A `ColumnMetaData`; a field that comes twice is unusual where both would be kept.
Chunk read_metadata(thrift::Reader& reader) {
  Chunk chunk;
  std::int64_t data = 0, dictionary = 0;
  for (Field field; reader.next(field);) {
    switch (field.number) {
      case 1: chunk.kind = reader.integer(field.kind); break;
      case 2:
        require(chunk.encodings.empty());
        each(reader, field.kind, [&](Kind kind) { chunk.encodings.push_back(reader.integer(kind)); });
        break;
      case 3:
        require(chunk.path.empty());
        each(reader, field.kind, [&](Kind kind) {
          chunk.path.push_back(text_of(reader.binary(kind)));
          require(json::is_utf8(chunk.path.back()));
        });
        break;
      case 4: chunk.codec = reader.integer(field.kind); break;
      case 5: chunk.values = reader.integer(field.kind); break;
      case 6: chunk.unpacked = reader.integer(field.kind); break;
      case 7: chunk.stored = reader.integer(field.kind); break;
      case 9: data = reader.integer(field.kind); break;
      case 11: dictionary = reader.integer(field.kind); break;
      case 12:
        reader.expect(field.kind, Kind::structure);
        chunk.nulls = read_nulls(reader);
        break;
      default: reader.skip(field.kind);
    }
  }
  require(std::min({chunk.values, chunk.unpacked, chunk.stored, data}) >= 0);
  chunk.start = dictionary > 0 && dictionary < data ? dictionary : data;
  return chunk;
}

// A `ColumnChunk`, which names no other file.
Chunk read_chunk(thrift::Reader& reader) {
  std::optional<Chunk> chunk;
  for (Field field; reader.next(field);) {
    require(field.number != 1);
    if (field.number == 3) {
      reader.expect(field.kind, Kind::structure);
      chunk = read_metadata(reader);
    } else {
      reader.skip(field.kind);
    }
  }
  require(chunk.has_value());
  return *std::move(chunk);
}

// A `RowGroup`: its number of rows; the chunks are added to those of others.
std::int64_t read_group(thrift::Reader& reader, std::vector<Chunk>& chunks) {
  std::int64_t rows = 0;
  const std::size_t before = chunks.size();
  for (Field field; reader.next(field);) {
    if (field.number == 1) {
      require(chunks.size() == before);
      each_struct(reader, field.kind, [&] { chunks.push_back(read_chunk(reader)); });
    } else if (field.number == 3) {
      rows = reader.integer(field.kind);
    } else {
      reader.skip(field.kind);
    }
  }
  require(rows >= 0);
  return rows;
}

// A `SchemaElement`: the number of bytes of its name.
std::size_t read_element(thrift::Reader& reader) {
  std::size_t name = 0;
  for (Field field; reader.next(field);) {
    if (field.number == 4) {
      name = std::max(name, reader.binary(field.kind).size);
    } else if (field.number == 5) {
      reader.integer(field.kind);
    } else {
      reader.skip(field.kind);
    }
  }
  return name;
}

std::pair<Span, Span> read_pair(thrift::Reader& reader) {
  std::pair<Span, Span> pair;
  for (Field field; reader.next(field);) {
    if (field.number == 1 || field.number == 2) {
      (field.number == 1 ? pair.first : pair.second) = reader.binary(field.kind);
    } else {
      reader.skip(field.kind);
    }
  }
  require(pair.first.input != nullptr && pair.second.input != nullptr);
  return pair;
}

void read_file(thrift::Reader& reader, Footer& footer) {
  std::size_t names = 0, columns = 0;
  for (Field field; reader.next(field);) {
    switch (field.number) {
      case 1: footer.version = reader.integer(field.kind); break;
      case 2:
        require(footer.elements == 0);
        each_struct(reader, field.kind, [&] {
          names += read_element(reader);
          require(++footer.elements <= most_elements && names <= most_names);
        });
        break;
      case 4:
        require(footer.rows.empty());
        each_struct(reader, field.kind, [&] {
          footer.rows.push_back(read_group(reader, footer.chunks));
          if (footer.rows.size() == 1) columns = footer.chunks.size();
          require(footer.chunks.size() == footer.rows.size() * columns);
        });
        break;
      case 5:
        require(footer.metadata.empty());
        each_struct(reader, field.kind, [&] { footer.metadata.push_back(read_pair(reader)); });
        break;
      default: reader.skip(field.kind);
    }
  }
}

// Whether all chunks together fit into so many bytes.
bool fits(const Footer& footer, std::uint64_t before) {
  for (const Chunk& chunk : footer.chunks) {
    if (static_cast<std::uint64_t>(chunk.stored) > before) return false;
    before -= static_cast<std::uint64_t>(chunk.stored);
  }
  return true;
}

}  // namespace

bool read_footer(Span bytes, std::uint64_t before, int depth, Footer& footer) {
  try {
    thrift::Reader reader(bytes, depth);
    read_file(reader, footer);
  } catch (const Error&) {
    return false;
  }
  return footer.elements <= static_cast<std::size_t>(std::max(depth, 0)) && fits(footer, before);
}

}  // namespace ferry::parquet

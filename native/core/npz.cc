#include "npz.h"

#include <limits>
#include <unordered_set>

#include "json.h"
#include "text.h"

namespace ferry::npz {

namespace {

constexpr std::uint32_t entry_signature = 0x02014b50;
constexpr std::uint32_t local_signature = 0x04034b50;
constexpr std::size_t entry_size = 46;
constexpr std::size_t local_size = 30;
constexpr std::uint32_t wide = 0xffffffff;  // the number stands in a zip64 field
constexpr std::uint16_t utf8_flag = 0x800;
constexpr std::uint16_t zip64_field = 1;
constexpr std::string_view suffix = ".npy";
constexpr std::string_view magic("\x93NUMPY\x01\x00", 8);

std::string_view text_of(Span span) {
  return {reinterpret_cast<const char*>(span.data), span.size};
}

std::uint16_t fixed16(Reader& reader) {
  const Span bytes = reader.take(2);
  return static_cast<std::uint16_t>(bytes.data[0] | bytes.data[1] << 8);
}

// Names that need no second look: no way out of the archive, and the same in every encoding.
bool is_plain(std::string_view name, bool is_utf8) {
  if (name.empty() || name.front() == '/' || name.back() == '/') return false;
  bool is_ascii = true;
  for (const char letter : name) {
    if (letter == '\0' || letter == '\\') return false;
    is_ascii &= static_cast<unsigned char>(letter) < 0x80;
  }
  if (!is_ascii && !(is_utf8 && json::is_utf8(name))) return false;
  return name.find("..") == name.npos && name.find(":/") == name.npos;
}

// What the directory says of a member, and the local header repeats.
struct Entry {
  std::uint16_t flags, method;
  std::uint32_t checksum, stored, size;
  std::uint16_t name_length, extra_length;
};

void read_common(Reader& reader, Entry& entry) {
  entry.flags = fixed16(reader);
  entry.method = fixed16(reader);
  reader.take(4);  // time and date
  entry.checksum = reader.fixed32();
  entry.stored = reader.fixed32();
  entry.size = reader.fixed32();
  entry.name_length = fixed16(reader);
  entry.extra_length = fixed16(reader);
}

// Takes a text that must stand here.
bool take(std::string_view& text, std::string_view expected) {
  if (text.substr(0, expected.size()) != expected) return false;
  text.remove_prefix(expected.size());
  return true;
}

bool take_number(std::string_view& text, std::uint64_t& number) {
  std::size_t digits = 0;
  number = 0;
  while (digits < text.size() && text[digits] >= '0' && text[digits] <= '9') {
    if (digits == 18) return false;
    number = number * 10 + static_cast<std::uint64_t>(text[digits++] - '0');
  }
  if (digits == 0 || (digits > 1 && text[0] == '0')) return false;
  text.remove_prefix(digits);
  return true;
}

// "(2, 3)", "(2,)" or "()", as Python writes tuples.
bool take_shape(std::string_view& text, Archive& archive, Member& member) {
  if (!take(text, "(")) return false;
  member.dims = archive.dims.size();
  while (!take(text, ")")) {
    std::uint64_t size = 0;
    if (member.rank == max_rank || !take_number(text, size)) return false;
    archive.dims.push_back(size);
    ++member.rank;
    if (text.substr(0, 1) == ")") {
      if (member.rank == 1) return false;
    } else if (member.rank == 1 && text.substr(0, 2) == ",)") {
      text.remove_prefix(1);
    } else if (!take(text, ", ")) {
      return false;
    }
  }
  return true;
}

// The number of bytes of a value: of numbers and bools, in this machine's byte order; 0 for others.
std::uint64_t itemsize_of(std::string_view dtype) {
  if (dtype.size() < 3 || (dtype[0] != '<' && dtype[0] != '|')) return 0;
  std::uint64_t size = 0;
  std::string_view digits = dtype.substr(2);
  const bool is_number = std::string_view("biufc").find(dtype[1]) != std::string_view::npos;
  const bool has_order = dtype[0] == '<';
  if (!is_number || !take_number(digits, size) || !digits.empty() || size > 16) return 0;
  return (size > 1) == has_order ? size : 0;
}

bool read_array(Span bytes, Archive& archive, Member& member) {
  std::string_view text = text_of(bytes);
  if (!take(text, magic) || text.size() < 2) return false;
  const auto low = static_cast<unsigned char>(text[0]), high = static_cast<unsigned char>(text[1]);
  const std::size_t length = low | std::size_t{high} << 8;
  text.remove_prefix(2);
  if (length > text.size()) return false;
  member.values = bytes.offset() + magic.size() + 2 + length;
  text = text.substr(0, length);
  if (!take(text, "{'descr': '")) return false;
  member.dtype = text.substr(0, text.find('\''));
  const std::uint64_t itemsize = itemsize_of(member.dtype);
  if (itemsize == 0) return false;
  text.remove_prefix(member.dtype.size());
  if (!take(text, "', 'fortran_order': ")) return false;
  member.is_fortran = take(text, "True");
  if (!member.is_fortran && !take(text, "False")) return false;
  if (!take(text, ", 'shape': ") || !take_shape(text, archive, member)) return false;
  if (!take(text, ", }") || text.empty() || text.back() != '\n') return false;
  text.remove_suffix(1);
  if (text.find_first_not_of(' ') != text.npos) return false;
  std::uint64_t size = itemsize;
  for (std::size_t axis = 0; axis < member.rank; ++axis) {
    const std::uint64_t dimension = archive.dims[member.dims + axis];
    if (dimension > 0 && size > std::numeric_limits<std::int64_t>::max() / dimension) return false;
    size *= dimension;
  }
  member.is_array = true;
  return size == member.end - member.values;
}

// Whether the local header says what the directory says; finds where the member lies.
bool read_local(Reader& reader, const Entry& entry, std::string_view name, Member& member) {
  if (reader.left() < local_size || reader.fixed32() != local_signature) return false;
  reader.take(2);  // the version that is needed
  Entry local;
  read_common(reader, local);
  if (local.flags != entry.flags || local.method != entry.method ||
      local.checksum != entry.checksum || local.name_length != entry.name_length ||
      reader.left() < std::size_t{local.name_length} + local.extra_length ||
      text_of(reader.take(local.name_length)) != name) {
    return false;
  }
  Reader extra(reader.take(local.extra_length));
  if (local.size == wide && local.stored == wide) {
    if (extra.left() < 20 || fixed16(extra) != zip64_field || fixed16(extra) != 16) return false;
    if (extra.fixed64() != entry.size || extra.fixed64() != entry.size) return false;
  } else if (local.size != entry.size || local.stored != entry.stored) {
    return false;
  }
  if (reader.left() < entry.size) return false;
  member.begin = reader.offset();
  member.end = member.begin + entry.size;
  return true;
}

}  // namespace

bool read(Span file, std::uint64_t start, std::uint64_t stop, std::uint64_t count,
          Archive& archive) {
  if (start > stop || stop > file.size || count > (stop - start) / entry_size) return false;
  Reader directory({file.data + start, static_cast<std::size_t>(stop - start), file.input});
  const Span data{file.data, static_cast<std::size_t>(start), file.input};
  std::unordered_set<std::string_view, TextHash> names;
  names.reserve(count);
  archive.members.reserve(count);
  std::uint64_t position = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    if (directory.left() < entry_size || directory.fixed32() != entry_signature) return false;
    directory.take(4);  // versions
    Entry entry;
    read_common(directory, entry);
    const std::uint16_t comment_length = fixed16(directory);
    const std::uint16_t disk = fixed16(directory);
    directory.take(2);  // attributes of the contents
    const std::uint32_t kind = directory.fixed32() >> 28;
    const std::uint32_t header = directory.fixed32();
    if (directory.left() < std::size_t{entry.name_length} + entry.extra_length + comment_length) {
      return false;
    }
    const std::string_view name = text_of(directory.take(entry.name_length));
    directory.take(std::uint64_t{entry.extra_length} + comment_length);
    // One behind the other, stored, and regular files: kind is the first digit of the mode. Other
    // fields may hold another name.
    if (disk != 0 || entry.extra_length != 0 || header != position || entry.method != 0 || entry.size != entry.stored ||
        entry.size == wide || (entry.flags & ~utf8_flag) != 0 || (kind != 0 && kind != 8) ||
        !is_plain(name, entry.flags != 0) || !names.insert(name).second) {
      return false;
    }
    Member member;
    member.name = name;
    member.checksum = entry.checksum;
    Reader local(data.behind(header));
    if (!read_local(local, entry, name, member)) return false;
    if (name.size() > suffix.size() && name.substr(name.size() - suffix.size()) == suffix) {
      const Span bytes{file.data + member.begin, entry.size, file.input};
      if (!read_array(bytes, archive, member)) return false;
    }
    position = member.end;
    archive.members.push_back(member);
  }
  return directory.done() && position == start;
}

}  // namespace ferry::npz

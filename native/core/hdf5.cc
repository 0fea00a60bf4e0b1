#include "hdf5.h"

#include <algorithm>
#include <array>
#include <limits>
#include <unordered_map>
#include <utility>

#include "text.h"

namespace ferry::hdf5 {

namespace {

constexpr std::string_view signature("\x89HDF\r\n\x1a\n", 8);
constexpr std::size_t header_size = 16, message_size = 8, node_size = 24, symbol_size = 40;
constexpr std::uint8_t shared = 2;  // a flag: the message is kept elsewhere
constexpr std::uint32_t soft_link = 2;

// Each part of a sound file is read once, a text in a heap twice, and an object takes at least so
// many bytes.
constexpr std::uint64_t spare_bytes = 1 << 16;
constexpr std::size_t deepest = 100;  // groups are walked by recursion
constexpr std::uint64_t least_object = 64;

enum Kind : std::uint16_t {
  dataspace = 1,
  link_info = 2,
  datatype = 3,
  link = 6,
  external_files = 7,
  layout = 8,
  filters = 11,
  attribute = 12,
  continuation = 16,
  symbol_table = 17,
  attribute_info = 21,
};

// For whatever is not usual: `read` catches it, as it does what a Reader throws.
[[noreturn]] void refuse() { throw Error(Problem::malformed, 0, {}); }

void expect(bool is_usual) {
  if (!is_usual) refuse();
}

std::string_view text_of(Span span) {
  return {reinterpret_cast<const char*>(span.data), span.size};
}

std::uint8_t byte(Reader& reader) { return *reader.take(1).data; }

std::uint16_t fixed16(Reader& reader) {
  const Span two = reader.take(2);
  return static_cast<std::uint16_t>(two.data[0] | two.data[1] << 8);
}

// What the header of an object says, as the bytes of its messages.
struct Header {
  Span space, type, place, members;  // without an input if there is none
  std::vector<Span> attributes;
};

bool has(const Span& message) { return message.input != nullptr; }

struct Number {
  const char* name;
  std::uint64_t size;
};

Number integer(Reader& type, std::uint64_t size, bool is_signed) {
  expect(fixed16(type) == 0 && fixed16(type) == 8 * size);
  switch (size) {
    case 1: return {is_signed ? "int8" : "uint8", 1};
    case 2: return {is_signed ? "int16" : "uint16", 2};
    case 4: return {is_signed ? "int32" : "uint32", 4};
    case 8: return {is_signed ? "int64" : "uint64", 8};
    default: refuse();
  }
}

// An IEEE float, by where its exponent and mantissa lie.
Number floating(Reader& type, std::uint64_t size, std::uint8_t sign) {
  struct Form {
    const char* name;
    std::uint64_t size;
    std::uint8_t mantissa, exponent;
    std::uint32_t bias;
  };
  static constexpr std::array<Form, 3> forms{
      {{"float16", 2, 10, 5, 15}, {"float32", 4, 23, 8, 127}, {"float64", 8, 52, 11, 1023}}};
  for (const Form& form : forms) {
    if (form.size != size) continue;
    expect(sign == 8 * size - 1 && fixed16(type) == 0 && fixed16(type) == 8 * size);
    expect(byte(type) == form.mantissa && byte(type) == form.exponent && byte(type) == 0);
    expect(byte(type) == form.mantissa && type.fixed32() == form.bias);
    return {form.name, size};
  }
  refuse();
}

Number number(Span message) {
  Reader type(message);
  const std::uint8_t kind = byte(type) & 15, bits = byte(type), sign = byte(type);
  byte(type);
  const std::uint64_t size = type.fixed32();
  expect((bits & 1) == 0);  // little-endian
  if (kind == 0) return integer(type, size, (bits & 8) != 0);
  expect(kind == 1 && (bits & 64) == 0);
  return floating(type, size, sign);
}

class Walk {
 public:
  Walk(Span file, std::size_t depth, Objects& found)
      : file_(file), found_(found), depth_(std::min(depth, deepest)), left_(3 * file.size + spare_bytes),
        values_left_(file.size) {}

  void read() {
    Reader head(file_);
    expect(text_of(head.take(signature.size())) == signature);
    const std::uint8_t version = byte(head);
    expect(version <= 1);
    head.take(4);  // versions
    expect(fixed16(head) == 0x0808);  // addresses and lengths have eight bytes
    head.take(version == 0 ? 9 : 13);
    const std::uint64_t base = head.fixed64();
    head.take(8);
    const std::uint64_t end = head.fixed64();
    head.take(16);
    expect(base == 0 && end <= file_.size);
    visit({}, head.fixed64(), 0);
    expect_once(addresses_);
    expect_once(nodes_);
  }

 private:
  // An object has one name, and a node of a tree one parent. Looking for this at the end is faster,
  // and a walk in circles ends before that: it has read too many bytes.
  static void expect_once(std::vector<std::uint64_t>& addresses) {
    std::sort(addresses.begin(), addresses.end());
    expect(std::adjacent_find(addresses.begin(), addresses.end()) == addresses.end());
  }

  // Bytes of the file. Parts of it may overlap in a damaged file, so that reading would not end.
  Span at(std::uint64_t offset, std::uint64_t length) {
    expect(offset <= file_.size && length <= file_.size - offset);
    spend(length);
    return {file_.data + offset, static_cast<std::size_t>(length), file_.input};
  }

  void spend(std::uint64_t bytes) {
    expect(bytes <= left_);
    left_ -= bytes;
  }

  void visit(std::string path, std::uint64_t address, std::size_t level) {
    expect(level < depth_ && found_.objects.size() < file_.size / least_object);
    addresses_.push_back(address);
    const Header header = read_header(address);
    const bool is_dataset = has(header.place);
    expect(is_dataset != has(header.members) && (level > 0 || !is_dataset));
    Object object;
    object.address = address;
    object.attributes = found_.attributes.size();
    for (const Span& message : header.attributes) read_attribute(message, object);
    if (is_dataset) read_dataset(header, object);
    object.path = is_dataset ? std::move(path) : path;
    found_.objects.push_back(std::move(object));
    if (!is_dataset) read_members(header.members, std::move(path), level);
  }

  Header read_header(std::uint64_t address) {
    Reader head(at(address, header_size));
    expect(byte(head) == 1);
    head.take(7);  // how many messages, how many links
    Header header;
    blocks_.assign(1, {address + header_size, head.fixed32()});
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
      for (std::size_t before = 0; before < i; ++before) {
        expect(blocks_[before].first != blocks_[i].first);
      }
      expect(i < 64);
      Reader block(at(blocks_[i].first, blocks_[i].second));
      while (block.left() >= message_size) {
        const std::uint16_t kind = fixed16(block), length = fixed16(block);
        const std::uint8_t flags = byte(block);
        block.take(3);
        const Span content = block.take(length);
        if (kind == continuation) {
          Reader next(content);
          const std::uint64_t start = next.fixed64();
          blocks_.emplace_back(start, next.fixed64());
        } else {
          add(header, kind, flags, content);
        }
      }
    }
    return header;
  }

  static void add(Header& header, std::uint16_t kind, std::uint8_t flags, Span content) {
    const auto keep = [&](Span& message) {
      expect((flags & shared) == 0 && !has(message));
      message = content;
    };
    switch (kind) {
      case dataspace: return keep(header.space);
      case datatype: return keep(header.type);
      case layout: return keep(header.place);
      case symbol_table: return keep(header.members);
      case attribute:
        expect((flags & shared) == 0);
        header.attributes.push_back(content);
        return;
      case link_info:
      case link:
      case external_files:
      case filters:
      case attribute_info:
        refuse();
      default:
        return;  // of no use here, nor there
    }
  }

  void read_dataset(const Header& header, Object& object) {
    expect(has(header.space) && has(header.type));
    const Number type = number(header.type);
    object.dtype = type.name;
    Reader space(header.space);
    const std::uint8_t version = byte(space);
    object.rank = byte(space);
    byte(space);
    const std::uint8_t kind = byte(space);
    expect(version == 1 || (version == 2 && kind < 2));
    if (version == 1) space.take(4);
    expect(object.rank <= max_rank);
    object.dims = found_.dims.size();
    object.nbytes = type.size;
    for (std::size_t axis = 0; axis < object.rank; ++axis) {
      const std::uint64_t size = space.fixed64();
      expect(size > 0 && object.nbytes <= std::numeric_limits<std::int64_t>::max() / size);
      object.nbytes *= size;
      found_.dims.push_back(size);
    }
    Reader place(header.place);
    const std::uint8_t form = byte(place);
    expect((form == 3 || form == 4) && byte(place) == 1);  // values that lie in one run
    object.values = place.fixed64();
    expect(place.fixed64() >= object.nbytes);
    expect(object.values <= file_.size && object.nbytes <= file_.size - object.values);
    // Values of several datasets in the same bytes may add up to any size.
    expect(object.nbytes <= values_left_);
    values_left_ -= object.nbytes;
  }

  // An attribute of one text.
  void read_attribute(Span message, Object& object) {
    Reader reader(message);
    expect(byte(reader) == 1);
    byte(reader);
    const std::uint16_t sizes[] = {fixed16(reader), fixed16(reader), fixed16(reader)};
    Span parts[3];
    for (std::size_t i = 0; i < 3; ++i) {
      parts[i] = reader.take((sizes[i] + 7) / 8 * 8);
      parts[i].size = sizes[i];
    }
    Reader space(parts[2]);
    expect(byte(space) == 1 && byte(space) == 0);
    space.take(2);
    Attribute found;
    found.name = text_of(parts[0]);
    found.name = found.name.substr(0, found.name.find('\0'));
    found.value = read_text(parts[1], reader);
    expect(is_text(found.name) && is_text(found.value));
    for (std::size_t i = 0; i < object.attribute_count; ++i) {
      expect(found_.attributes[object.attributes + i].name != found.name);
    }
    expect(++object.attribute_count <= 64);
    found_.attributes.push_back(found);
  }

  bool is_text(std::string_view text) {
    return is_utf8({reinterpret_cast<const std::uint8_t*>(text.data()), text.size(), file_.input});
  }

  std::string_view read_text(Span message, Reader& values) {
    Reader type(message);
    const std::uint8_t kind = byte(type) & 15, bits = byte(type) & 15;
    type.take(2);
    const std::uint32_t size = type.fixed32();
    if (kind == 3) {  // of a fixed length, with padding
      expect(size > 0 && size < 1U << 31);
      std::string_view text = text_of(values.take(size));
      if (bits != 2) return text.substr(0, text.find('\0'));
      return text.substr(0, text.find_last_not_of(std::string_view("\0 ", 2)) + 1);
    }
    expect(kind == 9 && bits == 1 && size == 16);
    const std::uint32_t length = values.fixed32();
    const std::uint64_t address = values.fixed64();
    const std::uint32_t index = values.fixed32();
    if (length == 0 || address == 0) return {};
    const auto [place, is_new] = heaps_.try_emplace(address);
    if (is_new) read_heap(address, place->second);
    const auto text = place->second.find(index);
    expect(text != place->second.end() && text->second.size() >= length);
    spend(length);  // many attributes may have the same text
    return text->second.substr(0, length);
  }

  using Heap = std::unordered_map<std::uint32_t, std::string_view>;

  void read_heap(std::uint64_t address, Heap& heap) {
    Reader head(at(address, 16));
    expect(text_of(head.take(4)) == "GCOL" && byte(head) == 1);
    head.take(3);
    const std::uint64_t size = head.fixed64();
    expect(size >= 16);
    Reader objects(at(address, size));
    objects.take(16);
    while (objects.left() >= 16) {
      const std::uint16_t index = fixed16(objects);
      if (index == 0) return;
      objects.take(6);
      const std::uint64_t length = objects.fixed64();
      heap[index] = text_of(objects.take(length));
      const std::uint64_t padding = (8 - length % 8) % 8;
      if (objects.left() < padding) return;
      objects.take(padding);
    }
  }

  void read_members(Span message, std::string path, std::size_t level) {
    Reader symbols(message);
    const std::uint64_t tree = symbols.fixed64();
    Reader head(at(symbols.fixed64(), 32));
    expect(text_of(head.take(4)) == "HEAP");
    head.take(4);
    const std::uint64_t size = head.fixed64();
    head.take(8);
    const std::string_view names = text_of(at(head.fixed64(), size));
    if (!path.empty()) path += '/';
    Group group{std::move(path), names, {}, level};
    read_tree(tree, -1, group);
  }

  struct Group {
    std::string prefix;
    std::string_view names;
    std::string_view last;  // the name before: they rise, so that none comes twice
    std::size_t level;
  };

  void read_tree(std::uint64_t address, int expected, Group& group) {
    nodes_.push_back(address);
    Reader node(at(address, node_size));
    expect(text_of(node.take(4)) == "TREE" && byte(node) == 0);
    const int level = byte(node);
    expect(expected == -1 ? level < 32 : level == expected);
    const std::uint16_t count = fixed16(node);
    Reader entries(at(address + node_size, std::uint64_t{count} * 16));
    while (!entries.done()) {
      entries.take(8);
      const std::uint64_t child = entries.fixed64();
      if (level > 0) {
        read_tree(child, level - 1, group);
      } else {
        read_table(child, group);
      }
    }
  }

  void read_table(std::uint64_t address, Group& group) {
    Reader head(at(address, 8));
    expect(text_of(head.take(4)) == "SNOD");
    head.take(2);
    const std::uint16_t count = fixed16(head);
    Reader symbols(at(address + 8, std::uint64_t{count} * symbol_size));
    while (!symbols.done()) {
      const std::uint64_t place = symbols.fixed64(), member = symbols.fixed64();
      expect(symbols.fixed32() != soft_link && place < group.names.size());
      symbols.take(20);
      const std::size_t end = group.names.find('\0', static_cast<std::size_t>(place));
      expect(end != group.names.npos);
      const std::string_view name =
          group.names.substr(static_cast<std::size_t>(place), end - static_cast<std::size_t>(place));
      expect(name > group.last && name != "." && name != ".." && name.find('/') == name.npos);
      expect(is_text(name));
      group.last = name;
      spend(group.prefix.size() + name.size());
      visit(std::string(group.prefix).append(name), member, group.level + 1);
    }
  }

  Span file_;
  Objects& found_;
  std::size_t depth_;
  std::uint64_t left_;  // how many bytes may still be read
  std::uint64_t values_left_;  // how many bytes the values of further datasets may have
  std::vector<std::uint64_t> addresses_, nodes_;  // of all that was read
  std::vector<std::pair<std::uint64_t, std::uint64_t>> blocks_;  // of the header that is read
  std::unordered_map<std::uint64_t, Heap> heaps_;
};

}  // namespace

bool read(Span file, std::size_t depth, Objects& found) {
  try {
    Walk(file, depth, found).read();
  } catch (const Error&) {
    return false;
  }
  return true;
}

}  // namespace ferry::hdf5

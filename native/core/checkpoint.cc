#include "checkpoint.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <string_view>
#include <unordered_map>

#include "checksum.h"
#include "parallel.h"
#include "text.h"

namespace ferry::checkpoint {

namespace {

constexpr std::size_t word = sizeof(std::uint32_t);

std::string shown(std::string_view key) {
  static constexpr char digits[] = "0123456789abcdef";
  std::string text = "'";
  for (const char letter : key.substr(0, 60)) {
    const auto byte = static_cast<std::uint8_t>(letter);
    if (byte >= 0x20 && byte < 0x7f) {
      text += letter;
    } else {
      text += {'\\', 'x', digits[byte >> 4], digits[byte & 15]};
    }
  }
  return text + "'";
}

bool take_tag(Reader& reader, std::uint8_t tag) {
  if (reader.done() || *reader.peek(1) != tag) return false;
  reader.take(1);
  return true;
}

// The numbers behind dtype and shape; false if they are of another form.
bool read_numbers(Reader reader, std::int64_t (&numbers)[Entries::columns - 1]) {
  for (int field = 0; field < 3; ++field) {
    if (!take_tag(reader, static_cast<std::uint8_t>(0x18 + 8 * field))) continue;
    const std::uint64_t value = reader.varint();
    if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) return false;
    numbers[field] = static_cast<std::int64_t>(value);
  }
  if (take_tag(reader, 0x35)) numbers[3] = reader.fixed32();
  return reader.done();
}

// How long dtype and shape are; 0 if an entry does not start with them.
std::size_t head_size(Span value) {
  if (value.size < 4) return 0;
  const std::uint8_t* head = value.data;
  if (head[0] != 0x08 || head[1] > 0x7f || head[2] != 0x12 || head[3] > 0x7f) return 0;
  const std::size_t size = std::size_t{4} + head[3];
  return size <= value.size ? size : 0;
}

}  // namespace

Block::Parts Block::split(Span block) {
  const std::uint64_t end = block.size < word ? 0 : block.size - word;
  const std::uint64_t count = block.size < word ? 0 : Reader(block.behind(end)).fixed32();
  if (count == 0 || count * word > end) {
    throw Error(Problem::malformed, block.offset() + end,
                "a block of " + std::to_string(block.size) + " bytes with " +
                    std::to_string(count) + " restarts, expected one or more that fit");
  }
  Reader reader(block);
  const Span entries = reader.take(end - count * word);
  return {entries, reader.take(count * word)};
}

Block::Block(Span block) : Block(split(block), block.offset()) {}

Block::Block(Parts parts, std::uint64_t begin)
    : entries_(parts.entries),
      restarts_(parts.restarts),
      begin_(begin),
      room_(keys_ratio * parts.entries.size) {
  restart_ = restarts_.fixed32();
}

bool Block::next() {
  const std::uint64_t start = entries_.offset() - begin_;
  if (entries_.done()) {
    if (is_first_) check_restart(0, true);
    if (restart_ >= 0) {
      throw Error(Problem::malformed, begin_ + start,
                  "a restart of a block is not where a key starts anew");
    }
    return false;
  }
  const std::uint64_t shared = entries_.varint();
  const std::uint64_t own = entries_.varint();
  const std::uint64_t length = entries_.varint();
  if (shared > key_.size() || own > entries_.left() || length > entries_.left() - own) {
    throw Error(Problem::malformed, begin_ + start,
                "an entry shares " + std::to_string(shared) + " bytes with a key of " +
                    std::to_string(key_.size()) + ", has " + std::to_string(own) +
                    " of its own and " + std::to_string(length) + " for its value, with " +
                    std::to_string(entries_.left()) + " left");
  }
  if (shared + own > room_) {
    throw Error(Problem::limit, begin_ + start,
                "the keys of a block take more than " + std::to_string(keys_ratio) +
                    " times its size");
  }
  room_ -= shared + own;
  const Span more = entries_.take(own);
  const std::string_view added(reinterpret_cast<const char*>(more.data), more.size);
  // What both keys start with is the same: the rest decides.
  if (!is_first_ && added <= std::string_view(key_).substr(shared)) {
    const std::string before = shown(key_);
    const std::string found = shown(key_.substr(0, shared).append(added));
    throw Error(Problem::malformed, begin_ + start,
                "the key " + found + " follows " + before +
                    ": keys are not sorted, or come twice");
  }
  key_.resize(shared);
  key_.append(added);
  value_ = entries_.take(length);
  check_restart(start, shared == 0);
  is_first_ = false;
  return true;
}

void Block::check_restart(std::uint64_t start, bool is_whole) {
  if (restart_ != static_cast<std::int64_t>(start) || !is_whole) return;
  restart_ = restarts_.done() ? -1 : std::int64_t{restarts_.fixed32()};
}

Entries read_entries(const std::vector<Span>& values) {
  const std::size_t count = values.size();
  Entries entries;
  entries.numbers.resize(Entries::columns * count);
  std::unordered_map<std::string_view, std::int64_t, TextHash> known;
  for (std::size_t number = 0; number < count; ++number) {
    const Span value = values[number];
    std::int64_t head = -1;
    std::int64_t numbers[Entries::columns - 1] = {};
    if (const std::size_t size = head_size(value); size > 0) {
      bool is_usual = false;
      try {
        is_usual = read_numbers(Reader(value.behind(size)), numbers);
      } catch (const Error&) {  // who looks at it alone says what is wrong
      }
      if (is_usual) {
        const std::string_view start(reinterpret_cast<const char*>(value.data), size);
        const auto [found, is_new] = known.try_emplace(start, entries.heads.size());
        if (is_new) entries.heads.push_back({value.data, size, value.input});
        head = found->second;
      }
    }
    entries.numbers[number] = head;
    for (std::size_t column = 1; column < Entries::columns; ++column) {
      entries.numbers[column * count + number] = numbers[column - 1];
    }
  }
  return entries;
}

namespace {

struct Extent {
  std::int64_t start, end;
};

// Where the last extent ends, if no two of them overlap, else -1. What is empty may lie anywhere.
std::int64_t end_of_disjoint(std::vector<Extent>& extents) {
  const auto is_disjoint = [&] {
    return std::adjacent_find(extents.begin(), extents.end(), [](const Extent& a, const Extent& b) {
             return a.end > b.start;
           }) == extents.end();
  };
  std::int64_t end = 0;
  for (const Extent& each : extents) end = std::max(end, each.end);
  if (is_disjoint()) return end;
  std::erase_if(extents, [](const Extent& each) { return each.start == each.end; });
  std::sort(extents.begin(), extents.end(),
            [](const Extent& a, const Extent& b) { return a.start < b.start; });
  return is_disjoint() ? end : -1;
}

}  // namespace

Summary summarize(const Entries& entries) {
  constexpr std::int64_t unknown = -2;
  const std::size_t count = entries.numbers.size() / Entries::columns;
  const std::int64_t* const heads = entries.numbers.data();
  const std::int64_t* const shards = heads + count;
  const std::int64_t* const offsets = shards + count;
  const std::int64_t* const sizes = offsets + count;
  Summary summary{std::vector<std::int64_t>(entries.heads.size(), unknown)};
  std::vector<Extent> extents;
  extents.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    const std::int64_t offset = offsets[i], size = sizes[i];
    if (heads[i] < 0 || offset > std::numeric_limits<std::int64_t>::max() - size) return {};
    std::int64_t& known = summary.sizes[static_cast<std::size_t>(heads[i])];
    known = known == unknown || known == size ? size : -1;
    if (shards[i] == 0 && offset >= 0 && size >= 0) extents.push_back({offset, offset + size});
  }
  if (extents.size() == count) summary.end = end_of_disjoint(extents);
  return summary;
}

namespace {

constexpr std::size_t footer_size = 48, trailer_size = 5;
constexpr std::uint64_t magic = 0xdb4775248b80fb57;

struct Handle {
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
  std::uint64_t end() const noexcept { return offset + size + trailer_size; }
};

// A place in the file that `limit` is the end of; false if it is none.
bool read_handle(Reader& reader, std::uint64_t limit, Handle& handle) {
  handle.offset = reader.varint();
  handle.size = reader.varint();
  return limit >= trailer_size && handle.offset <= limit - trailer_size &&
         handle.size <= limit - trailer_size - handle.offset;
}

// The bytes of a block; false if they are compressed or not what they were.
bool read_block(Span file, const Handle& handle, Span& block) {
  Reader reader(file.behind(static_cast<std::size_t>(handle.offset)));
  const Span checked = reader.take(handle.size + 1);
  block = {checked.data, checked.size - 1, checked.input};
  return checked.data[block.size] == 0 &&
         reader.fixed32() == masked_crc32c(checked.data, checked.size);
}

bool read_footer(Span file, Handle& metaindex, Handle& index) {
  if (file.size < footer_size) return false;
  const std::uint64_t end = file.size - footer_size;
  Reader reader(file.behind(static_cast<std::size_t>(end)));
  Reader handles(reader.take(footer_size - sizeof(magic)));
  if (reader.fixed64() != magic) return false;
  if (!read_handle(handles, end, metaindex) || !read_handle(handles, end, index)) return false;
  const std::size_t shortest = varint_size(metaindex.offset) + varint_size(metaindex.size) +
                               varint_size(index.offset) + varint_size(index.size);
  if (footer_size - sizeof(magic) - handles.left() != shortest) return false;
  while (!handles.done()) {
    if (*handles.take(1).data != 0) return false;
  }
  return metaindex.end() == index.offset && index.end() == end;
}

// The entries of a data block, whose keys lie behind `before` and up to `last`.
bool read_data(Span block, const std::string* before, const std::string& last, Index& index) {
  const std::size_t first = index.keys.size();
  for (Block entries(block); entries.next();) {
    index.keys.push_back(entries.key());
    index.values.push_back(entries.value());
  }
  if (index.keys.size() == first || index.keys.back() > last) return false;
  if (before != nullptr && index.keys[first] <= *before) return false;
  return first == 0 || index.keys[first] > index.keys[first - 1];
}

bool read_blocks(Span file, Index& index) {
  Handle metaindex, directory, handle;
  Span block;
  if (!read_footer(file, metaindex, directory)) return false;
  if (!read_block(file, metaindex, block) || Block(block).next()) return false;
  if (!read_block(file, directory, block)) return false;
  std::uint64_t position = 0;
  std::string before;
  for (Block entries(block); entries.next(); position = handle.end()) {
    Reader reader(entries.value());
    Span data;
    if (!read_handle(reader, metaindex.offset, handle) || !reader.done()) return false;
    if (handle.offset != position || !read_block(file, handle, data)) return false;
    if (!read_data(data, position == 0 ? nullptr : &before, entries.key(), index)) return false;
    before = entries.key();
  }
  return position == metaindex.offset && !index.keys.empty() && index.keys.front().empty();
}

}  // namespace

bool read_index(Span file, Index& index) {
  try {
    if (!read_blocks(file, index)) return false;
  } catch (const Error&) {
    return false;
  }
  index.header = index.values.front();
  index.keys.erase(index.keys.begin());
  index.values.erase(index.values.begin());
  return true;
}

namespace {

void append(std::string& out, Span bytes) {
  out.append(reinterpret_cast<const char*>(bytes.data), bytes.size);
}

void append_varint(std::string& out, std::uint64_t value) {
  std::uint8_t bytes[10];
  const std::uint8_t* const end = put_varint(bytes, value);
  out.append(reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(end - bytes));
}

void append_word(std::string& out, std::uint32_t value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

}  // namespace

bool are_sound(const std::uint8_t* data, std::size_t size, const std::int64_t* offsets, const std::int64_t* sizes,
               const std::int64_t* checksums, std::size_t count) {
  const auto room = static_cast<std::int64_t>(size);
  std::size_t total = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (offsets[i] < 0 || sizes[i] < 0 || offsets[i] > room || sizes[i] > room - offsets[i]) return false;
    total += static_cast<std::size_t>(sizes[i]);  // may wrap around: it only says how many threads are worth it
  }
  std::atomic<bool> sound{true};
  in_parallel(count, threads_for(total), [&](std::size_t i) {
    if (!sound.load(std::memory_order_relaxed)) return;
    const std::uint32_t found = masked_crc32c(data + offsets[i], static_cast<std::size_t>(sizes[i]));
    if (static_cast<std::int64_t>(found) != checksums[i]) sound.store(false, std::memory_order_relaxed);
  });
  return sound.load();
}

std::size_t encode_block(const std::vector<Span>& keys, const std::vector<Span>& values,
                         std::size_t start, std::size_t room, std::size_t interval,
                         std::string& out) {
  out.clear();
  std::vector<std::uint32_t> restarts{0};
  std::size_t number = start;
  const std::size_t count = std::min(keys.size(), values.size());
  for (; number < count && out.size() + word * (restarts.size() + 1) < room; ++number) {
    const Span key = keys[number], value = values[number];
    std::size_t shared = 0;
    if ((number - start) % interval != 0) {
      const Span before = keys[number - 1];
      const std::size_t most = std::min(before.size, key.size);
      while (shared < most && before.data[shared] == key.data[shared]) ++shared;
    } else if (number > start) {
      restarts.push_back(static_cast<std::uint32_t>(out.size()));
    }
    append_varint(out, shared);
    append_varint(out, key.size - shared);
    append_varint(out, value.size);
    append(out, key.behind(shared));
    append(out, value);
    if (out.size() > std::numeric_limits<std::uint32_t>::max()) {
      throw Error(Problem::limit, 0, "a block of an index takes more than 4 GiB");
    }
  }
  for (const std::uint32_t restart : restarts) append_word(out, restart);
  append_word(out, static_cast<std::uint32_t>(restarts.size()));
  return number;
}

std::string encode_entry(Span head, std::uint64_t shard, std::uint64_t offset, std::uint64_t size,
                         std::uint32_t checksum) {
  std::string out;
  append(out, head);
  const std::uint64_t numbers[] = {shard, offset, size};
  for (std::uint8_t field = 0; field < 3; ++field) {
    if (numbers[field] == 0) continue;
    out += static_cast<char>(0x18 + 8 * field);
    append_varint(out, numbers[field]);
  }
  if (checksum != 0) {
    out += '\x35';
    append_word(out, checksum);
  }
  return out;
}

}  // namespace ferry::checkpoint

// The index of a checkpoint: blocks of a sorted table, and the entries that most tensors have.
//
// A block, as LevelDB has them:
//
//     entry | entry | ... | restarts: uint32 each | how many restarts: uint32
//     entry: shared | own | length (varints) | own bytes of the key | value
//
// A key starts with `shared` bytes of the key before it; at a restart with none. What the values
// mean is BundleEntryProto; tensorferry.formats.checkpoint.index has its fields.
#pragma once

#include <string>
#include <vector>

#include "wire.h"

namespace ferry::checkpoint {

// Keys share what they start with, so that few bytes can stand for many: all keys of a block
// together take no more than so many times its size. A key starts anew every 16 entries, in files
// of TensorFlow as in ours: no block of theirs comes near.
inline constexpr std::uint64_t keys_ratio = 32;

// Goes over the entries of a block, whose keys rise from one to the next.
class Block {
 public:
  // Fails if there are no restarts, or more than fit.
  explicit Block(Span block);

  // The next entry; false behind the last, if all restarts were where a key starts anew.
  bool next();

  const std::string& key() const noexcept { return key_; }
  Span value() const noexcept { return value_; }

 private:
  struct Parts {
    Span entries;
    Span restarts;
  };
  static Parts split(Span block);
  Block(Parts parts, std::uint64_t begin);
  void check_restart(std::uint64_t start, bool is_whole);

  Reader entries_;
  Reader restarts_;
  std::uint64_t begin_;
  std::uint64_t room_;  // what keys may still take
  std::int64_t restart_ = -1;  // the next one; -1 if there is none
  bool is_first_ = true;
  std::string key_;
  Span value_;
};

// Entries all together, as columns of as many numbers: which head, shard, offset, size, checksum.
struct Entries {
  static constexpr std::size_t columns = 5;

  // The different starts of entries: their dtype and shape.
  std::vector<Span> heads;
  // Column after column. An entry that is not of the usual form has the head -1: it starts with
  // dtype and shape, has the other numbers in the order of their fields, and nothing else.
  std::vector<std::int64_t> numbers;
};

Entries read_entries(const std::vector<Span>& values);

// What entries have in common, if all are of the usual form: the size that entries of each head
// have, -1 where they differ, and where the last one ends, if all lie in the first data file and no
// two have the same bytes; -1 if not. No sizes if an entry is not of the usual form, or ends nowhere.
struct Summary {
  std::vector<std::int64_t> sizes;
  std::int64_t end = -1;
};

Summary summarize(const Entries& entries);

// The whole index of a checkpoint: its header, and the keys and values behind it.
struct Index {
  Span header;
  std::vector<std::string> keys;
  std::vector<Span> values;
};

// Reads a table whose blocks are not compressed, every checksum verified; false for every other one,
// and for damage: tensorferry.codecs.leveldb reads it block by block, and says what is wrong.
bool read_index(Span file, Index& index);

// Whether bytes at some places of a data file have the checksums of their entries, all of them; false if
// a place is not in the file. Done by all processors.
bool are_sound(const std::uint8_t* data, std::size_t size, const std::int64_t* offsets, const std::int64_t* sizes,
               const std::int64_t* checksums, std::size_t count);

// Writes the block of the entries from `start` on, which are sorted, and gives the number of the
// first entry behind it: a block takes entries until it has `room` bytes. A key starts anew every
// `interval` entries.
std::size_t encode_block(const std::vector<Span>& keys, const std::vector<Span>& values,
                         std::size_t start, std::size_t room, std::size_t interval,
                         std::string& out);

// An entry: its dtype and shape, which are encoded, and the numbers behind them; zeros are left out.
std::string encode_entry(Span head, std::uint64_t shard, std::uint64_t offset, std::uint64_t size,
                         std::uint32_t checksum);

}  // namespace ferry::checkpoint

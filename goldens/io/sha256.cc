#include "goldens/io/sha256.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <future>
#include <string_view>
#include <vector>

#include "numerics/error.h"

namespace mxcheck {

struct Sha256::State {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  State() = default;
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() { EVP_MD_CTX_free(context); }
};

namespace {

void require(bool succeeded) {
  if (!succeeded)
    throw Error(ErrorKind::environment, "OpenSSL cannot compute SHA-256; is its default provider missing?");
}

}  // namespace

Sha256::Sha256() : state_(std::make_unique<State>()) {
  // A hash must not depend on the openssl.cnf of the machine, which may call for modules that are not there.
  static const int without_configuration = OPENSSL_init_crypto(OPENSSL_INIT_NO_LOAD_CONFIG, nullptr);
  require(without_configuration == 1);
  require(state_->context != nullptr && EVP_DigestInit_ex(state_->context, EVP_sha256(), nullptr) == 1);
}

Sha256::~Sha256() = default;

void Sha256::update(std::span<const std::byte> bytes) {
  require(EVP_DigestUpdate(state_->context, bytes.data(), bytes.size()) == 1);
}

std::string Sha256::hex() {
  std::array<unsigned char, 32> digest{};
  unsigned size = 0;
  require(EVP_DigestFinal_ex(state_->context, digest.data(), &size) == 1 && size == digest.size());
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const unsigned char byte : digest) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

std::string sha256(std::span<const std::byte> bytes) {
  Sha256 hash;
  hash.update(bytes);
  return hash.hex();
}

namespace {

constexpr std::uint64_t kPiece = 4 << 20;

// room(at, bytes): where the bytes from `at` on go; those of the piece before are still being hashed.
template <class Room>
std::string hash_while_reading(const ByteSource& source, const Room& room, std::atomic<std::uint64_t>* done) {
  Sha256 hash;
  const auto read = [&](std::uint64_t at) {
    const std::span<std::byte> piece = room(at, std::min(kPiece, source.size() - at));
    source.read(at, piece);
    return piece;
  };
  std::span<const std::byte> piece = read(0);
  for (std::uint64_t next = piece.size(); !piece.empty(); next += piece.size()) {
    std::future<std::span<std::byte>> ahead = std::async(std::launch::async, read, next);
    hash.update(piece);
    if (done != nullptr) *done += piece.size();
    piece = ahead.get();
  }
  return hash.hex();
}

}  // namespace

std::string sha256(const ByteSource& source, std::atomic<std::uint64_t>* done) {
  std::array<std::vector<std::byte>, 2> rooms;
  for (auto& room : rooms) room.resize(std::min(kPiece, source.size()));
  const auto room = [&](std::uint64_t at, std::uint64_t bytes) {
    return std::span(rooms[at / kPiece % 2]).first(bytes);
  };
  return hash_while_reading(source, room, done);
}

std::string sha256(const ByteSource& source, std::span<std::byte> into, std::atomic<std::uint64_t>* done) {
  const auto room = [&](std::uint64_t at, std::uint64_t bytes) { return into.subspan(at, bytes); };
  return hash_while_reading(source, room, done);
}

}  // namespace mxcheck

// SPDX-License-Identifier: Apache-2.0
#include "address_key.h"

#include <algorithm>

namespace phalanx::http {
namespace {

constexpr std::size_t kHostBytes = 8;  // of IPv6, behind its /64

asio::ip::address without_mapping(const asio::ip::address& address) {
  if (address.is_v6() && address.to_v6().is_v4_mapped()) {
    return asio::ip::make_address_v4(asio::ip::v4_mapped, address.to_v6());
  }
  return address;
}

}  // namespace

std::string address_key(const asio::ip::address& address) {
  const asio::ip::address plain = without_mapping(address);
  if (plain.is_v4()) {
    return plain.to_string();
  }
  asio::ip::address_v6::bytes_type bytes = plain.to_v6().to_bytes();
  std::fill(bytes.end() - kHostBytes, bytes.end(), static_cast<unsigned char>(0));
  return asio::ip::address_v6(bytes).to_string() + "/64";
}

bool is_loopback(const asio::ip::address& address) {
  return without_mapping(address).is_loopback();
}

}  // namespace phalanx::http

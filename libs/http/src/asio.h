// SPDX-License-Identifier: Apache-2.0
#pragma once

// <utility> must come first: Asio 1.18 uses std::exchange without including it, which g++ 12 does
// not forgive.
#include <utility>

#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>

namespace phalanx::http {

namespace asio = boost::asio;
using Tcp = asio::ip::tcp;
using SystemError = boost::system::error_code;

}  // namespace phalanx::http

// TCP of ns-3 as all programs of this folder that have links have it.
//
// Segments have 1448 bytes, and buffers 64 MiB, so that no receiver holds a flow back. The first
// timeout of SYN is 1 s, as in RFC 6298.

#pragma once

#include "ns3/core-module.h"
#include "ns3/internet-module.h"

#include <string>

inline void Configure(const std::string& variant) {
    const std::string kind = variant == "newreno" ? "ns3::TcpNewReno" : "ns3::TcpCubic";
    ns3::Config::SetDefault("ns3::TcpL4Protocol::SocketType",
                            ns3::TypeIdValue(ns3::TypeId::LookupByName(kind)));
    ns3::Config::SetDefault("ns3::TcpSocket::SegmentSize", ns3::UintegerValue(1448));
    ns3::Config::SetDefault("ns3::TcpSocket::SndBufSize", ns3::UintegerValue(1u << 26));
    ns3::Config::SetDefault("ns3::TcpSocket::RcvBufSize", ns3::UintegerValue(1u << 26));
    ns3::Config::SetDefault("ns3::TcpSocket::ConnTimeout", ns3::TimeValue(ns3::Seconds(1)));
}

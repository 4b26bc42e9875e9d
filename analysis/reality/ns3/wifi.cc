// Transfers between the stations of one Wi-Fi cell and its access point, packet by packet.
//
// Standard input has one case, in words separated by white space:
//
//   standard   n, ac or ax, in the band of 5 GHz
//   width      of the channel, MHz
//   streams    spatial streams of every transmission
//   transport  udp or tcp
//   direction  up (stations to access point), down, or both (every other one up)
//   seed       of the backoffs
//   stations   their number, and then for each
//   start bytes mcs    s, and the modulation of all its data, both ways
//
// Standard output has one line for each message: when its last byte arrived, s after its start, and
// how many bytes arrived.
//
// All stations hear each other at equal power, so frames are lost by collisions alone, and no
// collision is survived. Addresses are resolved, stations associated and block acknowledgements
// agreed upon before the messages start. What differs from ns-3's defaults: guard intervals of
// 800 ns for ax (3200 ns); queues of a million packets that never expire (500 packets, 500 ms)
// without a queue discipline in front, so that nothing is dropped; no limit of retransmissions (7);
// TCP's segments of 1448 bytes (536), buffers of 64 MiB (128 KiB), Cubic. A datagram has 1472 bytes.

#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/mobility-module.h"
#include "ns3/network-module.h"
#include "ns3/propagation-module.h"
#include "ns3/traffic-control-module.h"
#include "ns3/wifi-module.h"

#include <cmath>
#include <cstdint>
#include <iostream>
#include <map>
#include <string>
#include <vector>

using namespace ns3;

namespace {

const double BEGIN = 4.0;      // simulated seconds for the cell to form
const double LIMIT = 600.0;    // after which a message counts as never complete
const uint32_t DATAGRAM = 1472;

struct Message {
    double start = 0.0;
    uint64_t bytes = 0;
    uint32_t mcs = 0;
    uint64_t sent = 0;
    uint64_t received = 0;
    double complete = std::nan("");
};

std::vector<Message> messages;
std::size_t unfinished;

void Arrived(std::size_t n, uint32_t bytes) {
    Message& message = messages[n];
    message.received += bytes;
    if (message.received >= message.bytes && std::isnan(message.complete)) {
        message.complete = Simulator::Now().GetSeconds() - BEGIN - message.start;
        if (--unfinished == 0) Simulator::Stop();
    }
}

void Drain(std::size_t n, Ptr<Socket> socket) {
    while (Ptr<Packet> packet = socket->Recv()) {
        if (packet->GetSize() == 0) break;
        Arrived(n, packet->GetSize());
    }
}

void Fill(std::size_t n, Ptr<Socket> socket, uint32_t) {
    Message& message = messages[n];
    while (message.sent < message.bytes && socket->GetTxAvailable() > 0) {
        uint64_t most = std::min<uint64_t>(socket->GetTxAvailable(), 1u << 20);
        int taken = socket->Send(Create<Packet>(std::min<uint64_t>(message.bytes - message.sent, most)));
        if (taken <= 0) return;
        message.sent += taken;
    }
}

void Established(std::size_t n, Ptr<Socket> socket) { Fill(n, socket, 0); }

void Accepted(std::size_t n, Ptr<Socket> socket, const Address&) {
    socket->SetRecvCallback(MakeBoundCallback(&Drain, n));
}

void Connect(std::size_t n, Ptr<Socket> source, InetSocketAddress to) { source->Connect(to); }

void SendDatagrams(std::size_t n, Ptr<Socket> source) {
    for (uint64_t left = messages[n].bytes; left > 0;) {
        uint32_t size = std::min<uint64_t>(left, DATAGRAM);
        source->Send(Create<Packet>(size));
        left -= size;
    }
}

void BeginMessage(std::size_t n, const std::string& transport, Ptr<Node> from, Ptr<Node> to,
                  Ipv4Address address) {
    const bool tcp = transport == "tcp";
    TypeId type = tcp ? TcpSocketFactory::GetTypeId() : UdpSocketFactory::GetTypeId();
    const InetSocketAddress there(address, 1024 + n);
    Ptr<Socket> sink = Socket::CreateSocket(to, type);
    sink->Bind(InetSocketAddress(Ipv4Address::GetAny(), 1024 + n));
    Ptr<Socket> source = Socket::CreateSocket(from, type);
    if (!tcp) {
        sink->SetAttribute("RcvBufSize", UintegerValue(1u << 30));
        sink->SetRecvCallback(MakeBoundCallback(&Drain, n));
        source->Connect(there);
        SendDatagrams(n, source);
        return;
    }
    sink->Listen();
    sink->SetAcceptCallback(MakeNullCallback<bool, Ptr<Socket>, const Address&>(),
                            MakeBoundCallback(&Accepted, n));
    source->SetConnectCallback(MakeBoundCallback(&Established, n),
                               MakeNullCallback<void, Ptr<Socket>>());
    source->SetSendCallback(MakeBoundCallback(&Fill, n));
    source->Bind();
    source->Connect(there);
}

// Datagrams each way before the messages, on which the two agree on block acknowledgements.
void Greet(Ptr<Node> from, Ipv4Address address) {
    Ptr<Socket> source = Socket::CreateSocket(from, UdpSocketFactory::GetTypeId());
    for (int n = 0; n < 3; ++n)
        source->SendTo(Create<Packet>(100), 0, InetSocketAddress(address, 9));
}

// Rates that are fixed for each receiver: ns-3's own constant manager has one for all of them.
class FixedRates : public WifiRemoteStationManager {
  public:
    static TypeId GetTypeId() {
        static TypeId id = TypeId("fedsim::FixedRates")
                               .SetParent<WifiRemoteStationManager>()
                               .AddConstructor<FixedRates>();
        return id;
    }
    static std::map<Mac48Address, WifiMode> modes;
    static WifiMode any;
    static uint8_t streams;

  private:
    WifiRemoteStation* DoCreateStation() const override { return new WifiRemoteStation(); }
    void DoReportRxOk(WifiRemoteStation*, double, WifiMode) override {}
    void DoReportRtsFailed(WifiRemoteStation*) override {}
    void DoReportDataFailed(WifiRemoteStation*) override {}
    void DoReportRtsOk(WifiRemoteStation*, double, WifiMode, double) override {}
    void DoReportDataOk(WifiRemoteStation*, double, WifiMode, double, uint16_t, uint8_t) override {}
    void DoReportFinalRtsFailed(WifiRemoteStation*) override {}
    void DoReportFinalDataFailed(WifiRemoteStation*) override {}
    WifiTxVector Vector(WifiRemoteStation* station, WifiMode mode, uint8_t nss, uint16_t width) {
        return WifiTxVector(mode, GetDefaultTxPowerLevel(),
                            GetPreambleForTransmission(mode.GetModulationClass(),
                                                       GetShortPreambleEnabled()),
                            ConvertGuardIntervalToNanoSeconds(
                                mode, GetShortGuardIntervalSupported(station),
                                NanoSeconds(GetGuardInterval())),
                            GetNumberOfAntennas(), nss, 0, GetChannelWidthForTransmission(mode, width),
                            GetAggregation(station));
    }
    WifiTxVector DoGetDataTxVector(WifiRemoteStation* station, uint16_t width) override {
        // To the access point a station sends at its own rate; so does each to all, which is rare.
        auto found = modes.find(GetAddress(station));
        if (found == modes.end())
            found = modes.find(Mac48Address::ConvertFrom(GetPhy()->GetDevice()->GetAddress()));
        WifiMode mode = found == modes.end() ? any : found->second;
        return Vector(station, mode, streams, std::min(width, GetChannelWidth(station)));
    }
    WifiTxVector DoGetRtsTxVector(WifiRemoteStation* station) override {
        return Vector(station, WifiMode("OfdmRate24Mbps"), 1, 20);
    }
};

NS_OBJECT_ENSURE_REGISTERED(FixedRates);
std::map<Mac48Address, WifiMode> FixedRates::modes;
WifiMode FixedRates::any;
uint8_t FixedRates::streams = 1;

std::string ModeName(const std::string& standard, uint32_t mcs, uint32_t streams) {
    if (standard == "n") return "HtMcs" + std::to_string(mcs + 8 * (streams - 1));
    return (standard == "ac" ? "VhtMcs" : "HeMcs") + std::to_string(mcs);
}

void Configure() {
    Config::SetDefault("ns3::TcpL4Protocol::SocketType",
                       TypeIdValue(TypeId::LookupByName("ns3::TcpCubic")));
    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(1448));
    Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(1u << 26));
    Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(1u << 26));
    Config::SetDefault("ns3::WifiMacQueue::MaxSize",
                       QueueSizeValue(QueueSize(QueueSizeUnit::PACKETS, 1000000)));
    Config::SetDefault("ns3::WifiMacQueue::MaxDelay", TimeValue(Seconds(2 * LIMIT)));
    Config::SetDefault("ns3::WifiRemoteStationManager::MaxSlrc", UintegerValue(1000000));
    Config::SetDefault("ns3::WifiRemoteStationManager::MaxSsrc", UintegerValue(1000000));
}

}  // namespace

int main() {
    std::string standard, transport, direction;
    uint32_t width, streams, seed, stations;
    std::cin >> standard >> width >> streams >> transport >> direction >> seed >> stations;
    messages.resize(std::cin ? stations : 0);
    for (Message& each : messages) std::cin >> each.start >> each.bytes >> each.mcs;
    if (!std::cin || messages.empty()) {
        std::cerr << "the case is incomplete; see the head of wifi.cc for what it has\n";
        return 1;
    }
    unfinished = stations;
    RngSeedManager::SetSeed(seed + 1);
    Configure();

    NodeContainer point(1), clients(stations);
    YansWifiChannelHelper channel;
    channel.SetPropagationDelay("ns3::ConstantSpeedPropagationDelayModel");
    channel.AddPropagationLoss("ns3::FixedRssLossModel", "Rss", DoubleValue(-40.0));
    YansWifiPhyHelper phy;
    phy.SetChannel(channel.Create());
    phy.Set("ChannelSettings", StringValue("{0, " + std::to_string(width) + ", BAND_5GHZ, 0}"));
    phy.Set("Antennas", UintegerValue(streams));
    phy.Set("MaxSupportedTxSpatialStreams", UintegerValue(streams));
    phy.Set("MaxSupportedRxSpatialStreams", UintegerValue(streams));

    WifiHelper wifi;
    wifi.SetStandard(standard == "n"    ? WIFI_STANDARD_80211n
                     : standard == "ac" ? WIFI_STANDARD_80211ac
                                        : WIFI_STANDARD_80211ax);
    wifi.SetRemoteStationManager("fedsim::FixedRates");
    WifiMacHelper mac;
    const Ssid ssid("cell");
    mac.SetType("ns3::StaWifiMac", "Ssid", SsidValue(ssid));
    NetDeviceContainer clientDevices = wifi.Install(phy, mac, clients);
    mac.SetType("ns3::ApWifiMac", "Ssid", SsidValue(ssid));
    NetDeviceContainer pointDevices = wifi.Install(phy, mac, point);
    if (standard == "ax") {
        NetDeviceContainer all(clientDevices, pointDevices);
        for (uint32_t n = 0; n < all.GetN(); ++n)
            DynamicCast<WifiNetDevice>(all.Get(n))->GetHeConfiguration()->SetGuardInterval(
                NanoSeconds(800));
    }

    // The rate of what a station sends is that of what it receives.
    FixedRates::streams = streams;
    FixedRates::any = WifiMode(ModeName(standard, 0, 1));
    for (uint32_t n = 0; n < stations; ++n) {
        const WifiMode mode(ModeName(standard, messages[n].mcs, streams));
        const auto device = DynamicCast<WifiNetDevice>(clientDevices.Get(n));
        FixedRates::modes[device->GetMac()->GetAddress()] = mode;
    }

    MobilityHelper mobility;
    Ptr<ListPositionAllocator> positions = CreateObject<ListPositionAllocator>();
    positions->Add(Vector(0.0, 0.0, 0.0));
    for (uint32_t n = 0; n < stations; ++n) {
        const double angle = 2.0 * M_PI * n / stations;
        positions->Add(Vector(std::cos(angle), std::sin(angle), 0.0));
    }
    mobility.SetPositionAllocator(positions);
    mobility.Install(NodeContainer(point, clients));

    InternetStackHelper stack;
    stack.Install(point);
    stack.Install(clients);
    Ipv4AddressHelper addresses("10.0.0.0", "255.255.255.0");
    const Ipv4Address there = addresses.Assign(pointDevices).GetAddress(0);
    const Ipv4InterfaceContainer own = addresses.Assign(clientDevices);
    TrafficControlHelper().Uninstall(NetDeviceContainer(clientDevices, pointDevices));
    NeighborCacheHelper().PopulateNeighborCache();

    for (uint32_t n = 0; n < stations; ++n) {
        const bool up = direction == "both" ? n % 2 == 0 : direction == "up";
        Ptr<Node> from = up ? clients.Get(n) : point.Get(0), to = up ? point.Get(0) : clients.Get(n);
        const double greeting = BEGIN - 1.0 + 0.02 * n;
        Simulator::Schedule(Seconds(greeting), &Greet, clients.Get(n), there);
        Simulator::Schedule(Seconds(greeting + 0.01), &Greet, point.Get(0), own.GetAddress(n));
        Simulator::Schedule(Seconds(BEGIN + messages[n].start), &BeginMessage, std::size_t{n},
                            transport, from, to, up ? there : own.GetAddress(n));
    }
    Simulator::Stop(Seconds(BEGIN + LIMIT));
    Simulator::Run();
    std::cout.precision(9);
    for (const Message& each : messages) std::cout << each.complete << " " << each.received << "\n";
    Simulator::Destroy();
    return 0;
}
